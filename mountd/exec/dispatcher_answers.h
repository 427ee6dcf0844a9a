// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "mountd/exec/dispatcher.h"

// Functions by which Dispatcher's methods fill an answer.
namespace mountd::exec {

// Returns a function that stores a plan's state in the answer and sends the
// answer.
template <typename State>
Tell<State> TellBy(const std::function<Result<void>()>& send, State* place) {
  return [&send, place](const State& now) {
    *place = now;
    return send();
  };
}

// Answers with a memfd that holds the rows.
template <typename Row>
Result<void> AnswerWithRows(Kernel& kernel, std::span<const Row> rows,
                            Dispatcher::Answer* answer) {
  MOUNTD_ASSIGN(answer->fd, Named(kernel.MakeMemory(std::as_bytes(rows)),
                                  "memfd_create", "what was found"));
  return Ok();
}

}  // namespace mountd::exec
