// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/plans/netlink.h"

#include <netlink/attr.h>
#include <netlink/msg.h>

#include <algorithm>
#include <cstring>

namespace mountd::netns {
namespace {

// The kernel puts at most 32 KiB of a dump into one read (netlink_recvmsg).
constexpr std::size_t kReceiveBytes = std::size_t{64} << 10U;

// Returns the errno; 0 means success. A value that is no errno is no
// acknowledgement either.
int ErrnoOf(const nlmsgerr& error) {
  // MAX_ERRNO of linux/err.h.
  constexpr int kMaxErrno = 4095;
  return error.error <= 0 && error.error >= -kMaxErrno ? -error.error : EBADMSG;
}

// Reads the errno of a dump that the kernel cut short (netlink_dump_done).
int ErrnoOfDump(std::span<const std::byte> done) {
  nlmsgerr error{};
  if (done.size() < sizeof(error.error)) {
    return 0;
  }
  std::memcpy(&error.error, done.data(), sizeof(error.error));
  return ErrnoOf(error);
}

bool IsInterrupted(const std::vector<Answer>& answers) {
  return std::ranges::any_of(answers, &Answer::is_interrupted);
}

int FirstError(const std::vector<Answer>& answers) {
  const auto found = std::ranges::find_if(
      answers, [](const Answer& answer) { return answer.err != 0; });
  return found == answers.end() ? 0 : found->err;
}

}  // namespace

void Message::Deleter::operator()(nl_msg* message) const {
  nlmsg_free(message);
}

Message::Message(int type, int flags, std::span<const std::byte> header,
                 std::size_t size)
    : message_(nlmsg_alloc_size(size)) {
  const nlmsghdr* put =
      message_ == nullptr ? nullptr
                          : nlmsg_put(message_.get(), NL_AUTO_PORT, NL_AUTO_SEQ,
                                      type, 0, flags | NLM_F_REQUEST);
  if (put == nullptr) {
    usable_ = false;
    return;
  }
  PutRaw(header);
}

Message& Message::PutRaw(std::span<const std::byte> bytes) {
  // libnl does not write through the pointer; its signature is older than
  // const.
  usable_ = usable_ &&
            nlmsg_append(message_.get(), const_cast<std::byte*>(bytes.data()),
                         bytes.size(), NLMSG_ALIGNTO) == 0;
  return *this;
}

Message& Message::PutBytes(int attribute, std::span<const std::byte> value) {
  usable_ =
      usable_ && nla_put(message_.get(), attribute,
                         static_cast<int>(value.size()), value.data()) == 0;
  return *this;
}

Message& Message::PutText(int attribute, const std::string& value) {
  return PutBytes(attribute,
                  std::as_bytes(std::span(value.c_str(), value.size() + 1)));
}

Message& Message::Begin(int attribute) {
  nlattr* nest = usable_
                     ? nla_nest_start(message_.get(), attribute | NLA_F_NESTED)
                     : nullptr;
  usable_ = nest != nullptr;
  nests_.push_back(nest);
  return *this;
}

Message& Message::End() {
  if (usable_) {
    nla_nest_end(message_.get(), static_cast<nlattr*>(nests_.back()));
  }
  nests_.pop_back();
  return *this;
}

Result<Channel> Channel::Open(exec::Kernel& kernel, int protocol) {
  MOUNTD_ASSIGN(UniqueFd fd,
                exec::Named(kernel.OpenNetlink(protocol), "socket", "netlink"));
  return Channel(kernel, std::move(fd));
}

Result<Channel::Sent> Channel::SendAll(std::span<const Message> messages,
                                       std::size_t last) {
  const Sent sent{sequence_ + 1, messages.size(), last};
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].usable()) {
      return MakeError(Code::kInternal, "netlink", "",
                       "the request is too long");
    }
    nlmsghdr* header = nlmsg_hdr(messages[i].get());
    // The numbers distinguish the answers of this exchange from answers of an
    // earlier exchange that was given up.
    header->nlmsg_seq = ++sequence_;
    header->nlmsg_pid = 0;
    if (i == last) {
      // This acknowledgement ends the reading (Collect).
      header->nlmsg_flags |= NLM_F_ACK;
    }
    const auto* data = reinterpret_cast<const std::byte*>(header);
    bytes.insert(bytes.end(), data, data + header->nlmsg_len);
    // Each message begins at a multiple of four bytes (netlink(3),
    // NLMSG_ALIGN).
    bytes.resize(NLMSG_ALIGN(bytes.size()));
  }
  MOUNTD_TRY(
      exec::Named(kernel_->Send(socket_.get(), bytes), "send", "netlink"));
  return sent;
}

Result<std::vector<Answer>> Channel::ExchangeOnce(
    std::span<const Message> messages, std::size_t last) {
  MOUNTD_ASSIGN(const Sent sent, SendAll(messages, last));
  std::vector<Answer> answers;
  for (bool complete = false; !complete;) {
    MOUNTD_ASSIGN(complete, Collect(sent, &answers));
  }
  return answers;
}

Result<std::vector<Answer>> Channel::Dump(const Message& dump) {
  return ExchangeOnce(std::span(&dump, 1), 0);
}

Result<std::vector<Answer>> Channel::Exchange(
    const std::vector<Message>& messages, std::size_t last) {
  constexpr int kTries = 8;
  for (int i = 0; i < kTries; ++i) {
    MOUNTD_ASSIGN(std::vector<Answer> answers, ExchangeOnce(messages, last));
    // NLM_F_DUMP_INTR: the list changed during the dump, so entries may be
    // missing (linux/netlink.h).
    if (!IsInterrupted(answers)) {
      return answers;
    }
  }
  return MakeError(Code::kUnavailable, "recv", "netlink",
                   "the list changed during each reading; call again");
}

Result<int> Channel::Transact(const std::vector<Message>& batch) {
  // The last message before the end marker is the one to acknowledge.
  MOUNTD_ASSIGN(const Sent sent, SendAll(batch, batch.size() - 2));
  std::vector<Answer> answers;
  for (;;) {
    MOUNTD_ASSIGN(const bool complete, Collect(sent, &answers));
    // The kernel may acknowledge nothing of a batch that it refuses as a whole,
    // so the first error is the outcome. A later Collect ignores further
    // messages about this batch, by their sequence numbers.
    const int refusal = FirstError(answers);
    if (complete || refusal != 0) {
      return refusal;
    }
  }
}

Result<bool> Channel::Collect(const Sent& sent, std::vector<Answer>* answers) {
  if (buffer_ == nullptr) {
    // Not cleared, because the code reads only bytes that were received.
    buffer_.reset(new std::byte[kReceiveBytes]);
  }
  const exec::Sys<std::size_t> size =
      kernel_->Receive(socket_.get(), std::span(buffer_.get(), kReceiveBytes));
  if (!size) {
    return ErrnoError(
        size.error(), "recv", "netlink",
        size.error() == EAGAIN ? "the kernel did not send an answer" : "");
  }
  auto left = static_cast<int>(*size);
  auto* header = reinterpret_cast<nlmsghdr*>(buffer_.get());
  bool complete = false;
  for (; nlmsg_ok(header, left) != 0; header = nlmsg_next(header, &left)) {
    // A message of another exchange has a number outside of this one's. If that
    // number is smaller, the subtraction wraps around to a large one.
    const std::size_t index = header->nlmsg_seq - sent.first;
    if (index >= sent.count) {
      continue;
    }
    Answer answer;
    answer.request = index;
    answer.type = header->nlmsg_type;
    answer.is_interrupted = (header->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
    const auto* data = static_cast<const std::byte*>(nlmsg_data(header));
    const auto length = static_cast<std::size_t>(nlmsg_datalen(header));
    if (header->nlmsg_type == NLMSG_ERROR && length >= sizeof(nlmsgerr)) {
      nlmsgerr error{};
      std::memcpy(&error, data, sizeof(error));
      answer.err = ErrnoOf(error);
      complete = complete || index == sent.last;
    } else if (header->nlmsg_type == NLMSG_DONE) {
      complete = complete || index == sent.last;  // ends a dump
      answer.err = ErrnoOfDump(std::span(data, length));
      if (answer.err == 0 && !answer.is_interrupted) {
        continue;
      }
    } else {
      answer.payload.assign(data, data + length);
    }
    answers->push_back(std::move(answer));
  }
  return complete;
}

Result<std::vector<Answer>> Channel::Ask(const std::vector<Message>& messages,
                                         const std::string& op,
                                         const std::string& object) {
  MOUNTD_ASSIGN(std::vector<Answer> answers,
                Exchange(messages, messages.size() - 1));
  if (const int failed = FirstError(answers); failed != 0) {
    return ErrnoError(failed, op, object);
  }
  return answers;
}

Result<void> Channel::Stream(const Message& dump, const std::string& op,
                             const std::string& object,
                             const std::function<void(const Answer&)>& each) {
  MOUNTD_ASSIGN(const Sent sent, SendAll(std::span(&dump, 1), 0));
  std::vector<Answer> some;
  for (bool complete = false; !complete; some.clear()) {
    MOUNTD_ASSIGN(complete, Collect(sent, &some));
    if (const int failed = FirstError(some); failed != 0) {
      return ErrnoError(failed, op, object);
    }
    std::ranges::for_each(some, each);
  }
  return Ok();
}

}  // namespace mountd::netns
