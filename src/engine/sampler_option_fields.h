// SPDX-License-Identifier: Apache-2.0
// Describes the fields of SamplerOptions, one line each (see option_field.h). Layer: engine.
//
// Ranges are checked by ValidateSamplerOptions, where they are stated once.
#pragma once

#include "engine/option_field.h"
#include "swiftkv/sampler_options.h"

namespace swiftkv {

namespace internal {

template <typename Visitor>
void VisitPenalties(Visitor& visit, SamplerOptions& options) {
  visit(OptionField{"--penalty-last-n", "penalty_last_n", "N",
                    "Tokens that the repetition penalties look at; 0: off"},
        options.penalty_last_n);
  visit(OptionField{"--repeat-penalty", "repeat_penalty", "X",
                    "Makes seen tokens less likely, by a factor; 1: off"},
        options.repeat_penalty);
  visit(OptionField{"--frequency-penalty", "frequency_penalty", "X",
                    "Subtracted from a logit for every time its token was seen; 0: off"},
        options.frequency_penalty);
  visit(OptionField{"--presence-penalty", "presence_penalty", "X",
                    "Subtracted once from the logit of every seen token; 0: off"},
        options.presence_penalty);
  visit(OptionField{"--dry-multiplier", "dry_multiplier", "X",
                    "Strength of DRY, which penalises repeated sequences; 0: off"},
        options.dry_multiplier);
  visit(OptionField{"--dry-base", "dry_base", "X", "Growth of DRY's penalty with the length"},
        options.dry_base);
  visit(OptionField{"--dry-allowed-length", "dry_allowed_length", "N",
                    "Longest repetition that DRY lets pass"},
        options.dry_allowed_length);
  visit(OptionField{"--dry-last-n", "dry_last_n", "N", "Tokens that DRY looks at"},
        options.dry_last_n);
  visit(OptionField{"--dry-sequence-breaker", "dry_sequence_breakers", "TEXT",
                    "Text at which a repeated sequence ends for DRY (again for more)"},
        options.dry_sequence_breakers);
}

template <typename Visitor>
void VisitTruncation(Visitor& visit, SamplerOptions& options) {
  visit(OptionField{"--mirostat", "mirostat", "VERSION",
                    "Mirostat 1 or 2 in place of the truncations below; 0: off"},
        options.mirostat);
  visit(OptionField{"--mirostat-tau", "mirostat_tau", "X", "Mirostat's target surprise, in bits"},
        options.mirostat_tau);
  visit(OptionField{"--mirostat-eta", "mirostat_eta", "X", "Mirostat's learning rate"},
        options.mirostat_eta);
  visit(OptionField{"--top-n-sigma", "top_n_sigma", "X",
                    "Keeps logits within X standard deviations of the best; -1: off"},
        options.top_n_sigma);
  visit(OptionField{"--top-k", "top_k", "N", "Keeps the N most likely tokens; 0: off"},
        options.top_k);
  visit(OptionField{"--typical-p", "typical_p", "P", "Locally typical sampling; 1: off"},
        options.typical_p);
  visit(OptionField{"--top-p", "top_p", "P",
                    "Keeps the most likely tokens that have probability P together; 1: off"},
        options.top_p);
  visit(OptionField{"--min-p", "min_p", "P",
                    "Keeps tokens at least P times as likely as the best; 0: off"},
        options.min_p);
  visit(OptionField{"--xtc-probability", "xtc_probability", "P",
                    "Chance of dropping all but the least likely token above the threshold; 0: "
                    "off"},
        options.xtc_probability);
  visit(OptionField{"--xtc-threshold", "xtc_threshold", "P", "XTC's threshold"},
        options.xtc_threshold);
  visit(OptionField{"--dynatemp-range", "dynatemp_range", "X",
                    "Moves the temperature within +- X with the entropy; 0: off"},
        options.dynatemp_range);
  visit(OptionField{"--dynatemp-exponent", "dynatemp_exponent", "X",
                    "Exponent of the entropy for --dynatemp-range"},
        options.dynatemp_exponent);
}

}  // namespace internal

template <typename Visitor>
void VisitOptions(Visitor&& visit, SamplerOptions& options) {
  visit(OptionField{"--temp,--temperature", "temperature", "T",
                    "Randomness of the reply; 0: always the most likely token"},
        options.temperature);
  visit(OptionField{"-s,--seed", "seed", "N", "Seed of the random choice (default: a fresh one)"},
        options.seed);
  internal::VisitTruncation(visit, options);
  internal::VisitPenalties(visit, options);
  visit(OptionField{"--logit-bias", "logit_bias", "TOKEN=BIAS",
                    "Added to the logit of a token id, -inf forbids it (again for more)"},
        options.logit_bias);
  visit(OptionField{"--grammar", "grammar", "GBNF", "Grammar that the reply must follow"},
        options.grammar);
  visit(OptionField{"--ignore-eos", "ignore_eos", "", "Never end the reply before -n"},
        options.ignore_eos);
}

}  // namespace swiftkv
