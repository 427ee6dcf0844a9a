// SPDX-License-Identifier: LGPL-2.1-or-later
// mountd-csi: speaks gRPC with CSI plugins on behalf of mountd.
#include "csi-node/mountd-csi/csi_main.h"

int main(int argc, char** argv) { return mountd::csi::CsiMain(argc, argv); }
