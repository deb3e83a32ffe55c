// SPDX-License-Identifier: Apache-2.0
// Reads the fields that both kinds of text requests have: sampling, stopping, streaming, the cache.
#pragma once

#include "server/field_reader.h"
#include "server/generation_task.h"
#include "server/served_model.h"

namespace swiftkv {

// Choices of one request, all prompts together.
inline constexpr int kMaxChoices = 128;

// The error that another model than the one that is served is refused with.
ApiError UnknownModel(const ServedModel& model, const std::string& name);

// Refuses another model than the one that is served, and what this server does not do: never
// silently ignored where a reply would differ.
void CheckModel(const ServedModel& model, FieldReader* fields);
void RefuseUnserved(FieldReader* fields);
// Refuses text that is longer than the context can hold whatever its tokens are: finding them would
// take seconds and gigabytes.
void CheckTextBytes(const ServedModel& model, const char* name, std::size_t bytes,
                    FieldReader* fields);

// Errors are the reader's.
void ReadSampling(const ServedModel& model, FieldReader* fields, EngineRequest* request);
void ReadReplyOptions(const ServedModel& model, FieldReader* fields, ReplyOptions* reply);
void ReadCacheFields(FieldReader* fields, EngineRequest* request);

}  // namespace swiftkv
