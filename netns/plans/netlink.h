// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mountd/kernel/kernel.h"

struct nl_msg;

namespace mountd::netns {

// Builds one netlink request. A message that ran out of room stays unusable,
// and Channel refuses it.
class Message {
 public:
  static constexpr std::size_t kUsualBytes = 1024;  // room for most requests
  // `header` is the family's own fixed header (ifinfomsg, nfgenmsg).
  // NLM_F_REQUEST is added to `flags`.
  template <typename Header>
  Message(int type, int flags, const Header& header)
      : Message(type, flags, std::as_bytes(std::span(&header, 1))) {}
  Message(int type, int flags, std::span<const std::byte> header,
          std::size_t size = kUsualBytes);

  Message& PutBytes(int attribute, std::span<const std::byte> value);
  Message& PutText(int attribute, const std::string& value);  // NUL-terminated
  template <typename T>
  Message& Put(int attribute, const T& value) {
    return PutBytes(attribute, std::as_bytes(std::span(&value, 1)));
  }
  Message& PutRaw(std::span<const std::byte> bytes);
  Message& Begin(int attribute);  // a nested attribute
  Message& End();

  bool usable() const { return usable_; }
  nl_msg* get() const { return message_.get(); }

 private:
  struct Deleter {
    void operator()(nl_msg* message) const;
  };
  std::unique_ptr<nl_msg, Deleter> message_;
  std::vector<void*> nests_;
  bool usable_ = true;
};

// One answer: an errno (0: done) or a message.
struct Answer {
  std::size_t request = 0;  // index of the message it answers
  int err = 0;
  int type = 0;
  // The list of a dump changed while the kernel wrote the dump, so that entries
  // may be missing: NLM_F_DUMP_INTR. Only Dump and Stream give such answers.
  bool is_interrupted = false;
  std::vector<std::byte> payload;
};

// A netlink socket of one protocol in one namespace. No call blocks, because
// the kernel handles requests within send(2), so that every answer is there
// when send(2) returns. An answer that is not there by then is lost,
// netlink(7).
class Channel {
 public:
  Channel(exec::Kernel& kernel, UniqueFd socket)
      : kernel_(&kernel), socket_(std::move(socket)) {}
  static Result<Channel> Open(exec::Kernel& kernel, int protocol);
  UniqueFd Release() && { return std::move(socket_); }

  // Sends all messages in one call and collects the answers. Asks the kernel to
  // acknowledge only the message `last`; errors come for each message. Fails
  // only if the outcome is unknown, as when an answer is lost. Sends an
  // interrupted dump again a few times. Unavailable if each of them was
  // interrupted.
  Result<std::vector<Answer>> Exchange(const std::vector<Message>& messages,
                                       std::size_t last);
  // As Exchange, of one dump, which it sends only once. The answers may be
  // those of an interrupted dump. The kernel marks each dump of nf_tables so
  // during which any table changed, so the caller has to know whether the mark
  // matters.
  Result<std::vector<Answer>> Dump(const Message& dump);
  // Sends one nf_tables batch with its markers; the kernel carries out all of
  // it or nothing. Returns 0, or the errno of the first message that the kernel
  // refuses. Fails as Exchange does.
  Result<int> Transact(const std::vector<Message>& batch);
  // Exchanges `messages`. Any error in an answer is a failure of `op` on
  // `object`.
  Result<std::vector<Answer>> Ask(const std::vector<Message>& messages,
                                  const std::string& op,
                                  const std::string& object);
  // Sends one dump, and calls `each` for each answer while the kernel still
  // writes the dump, so that no more than one read is in memory. `each` must
  // not use this channel. Fails with the dump's errno. Does not send an
  // interrupted dump again. After a failure the channel may still have the rest
  // of the dump, so the caller closes the channel.
  Result<void> Stream(const Message& dump, const std::string& op,
                      const std::string& object,
                      const std::function<void(const Answer&)>& each);

 private:
  // The messages of one send(2), by their sequence numbers.
  struct Sent {
    std::uint32_t first = 0;
    std::size_t count = 0;
    std::size_t last = 0;  // index of the acknowledged one
  };
  Result<Sent> SendAll(std::span<const Message> messages, std::size_t last);
  Result<std::vector<Answer>> ExchangeOnce(std::span<const Message> messages,
                                           std::size_t last);
  // Adds the answers of one recv(2). Returns true once the last is answered.
  Result<bool> Collect(const Sent& sent, std::vector<Answer>* answers);

  exec::Kernel* kernel_;
  UniqueFd socket_;
  std::uint32_t sequence_ = 0;
  std::unique_ptr<std::byte[]> buffer_;  // what was received last
};

}  // namespace mountd::netns
