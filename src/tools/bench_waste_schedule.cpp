// SPDX-License-Identifier: Apache-2.0
// Moves requests through the seats.
#include "tools/bench_waste_schedule.h"

#include <algorithm>

namespace swiftkv {

bool SaturatedSchedule::Step() {
  const auto ended = std::count_if(seats_.begin(), seats_.end(), [](const BatchSeat& seat) {
    return seat.tokens == seat.lengths.total();
  });
  if (requests_.size() - next_ < static_cast<std::size_t>(ended)) return false;
  for (BatchSeat& seat : seats_) {
    seat.is_started = seat.tokens == seat.lengths.total();
    if (seat.is_started) {
      seat.lengths = requests_[next_++];
      seat.tokens = 0;
    }
    seat.new_tokens = seat.is_started ? seat.lengths.prompt : 1;
    seat.tokens += seat.new_tokens;
  }
  return true;
}

double SaturatedSchedule::progress() const {
  return static_cast<double>(next_) /
         static_cast<double>(std::max<std::size_t>(1, requests_.size()));
}

}  // namespace swiftkv
