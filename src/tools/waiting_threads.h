// SPDX-License-Identifier: Apache-2.0
// Lets threads that wait for one another within a step sleep soon, so that they hold no core that
// another process keeps them waiting for.
//
// The threads of a step meet hundreds of times, mostly within microseconds. libgomp lets whoever
// comes first spin for milliseconds. On a machine of its own that costs nothing; beside another
// busy process the thread that is waited for then stands in its queue while the core of the one
// that waits is free in all but name.
#pragma once

namespace swiftkv {

// Starts this program anew with a short spin, unless the environment says how threads wait: libgomp
// looks there once, before main. `arguments`: those of main, ended by a null. Returns where nothing
// was to do, or the program cannot be started again: it then goes on as it is. Called first of all,
// from the only thread.
void LetWaitingThreadsSleep(char** arguments);

}  // namespace swiftkv
