// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/progress.h"

namespace mountd {

std::string_view StepName(Step step) {
  switch (step) {
    case Step::kQueue:
      return "queue";
    case Step::kWork:
      return "work";
    case Step::kVolume:
      return "volume";
    case Step::kPlugin:
      return "plugin";
    case Step::kStage:
      return "stage";
    case Step::kPublish:
      return "publish";
    case Step::kUnpublish:
      return "unpublish";
    case Step::kUnstage:
      return "unstage";
    case Step::kExpand:
      return "expand";
    case Step::kController:
      return "controller";
    case Step::kMount:
      return "mount";
    case Step::kFilesystem:
      return "filesystem";
    case Step::kUnmount:
      return "unmount";
    case Step::kNetwork:
      return "network";
    case Step::kCniAdd:
      return "cni-add";
    case Step::kCniDel:
      return "cni-del";
    case Step::kRelease:
      return "release";
    case Step::kRetry:
      return "retry";
    case Step::kTree:
      return "tree";
    case Step::kTasks:
      return "tasks";
    case Step::kEnd:
      break;
  }
  return "end";
}

}  // namespace mountd
