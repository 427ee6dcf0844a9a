// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/kernel/nft_command.h"

#include <nftables/libnftables.h>

#include <cerrno>
#include <memory>

namespace mountd::exec {
namespace {

struct ContextDeleter {
  void operator()(nft_ctx* context) const { nft_ctx_free(context); }
};

}  // namespace

Sys<void> RunNftCommand(const std::string& commands) {
  const std::unique_ptr<nft_ctx, ContextDeleter> context(
      nft_ctx_new(NFT_CTX_DEFAULT));
  if (context == nullptr) {
    return ENOMEM;
  }
  // Without buffers libnftables writes to stdout and stderr (libnftables(3)).
  nft_ctx_buffer_output(context.get());
  nft_ctx_buffer_error(context.get());
  // A parse error sets no errno, so an old one must not be taken for its cause.
  errno = 0;
  if (nft_run_cmd_from_buffer(context.get(), commands.c_str()) != 0) {
    return errno != 0 ? errno : EINVAL;
  }
  return {};
}

}  // namespace mountd::exec
