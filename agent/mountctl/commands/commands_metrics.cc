// SPDX-License-Identifier: LGPL-2.1-or-later
#include <iostream>
#include <memory>

#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/output/metrics.h"
#include "agent/mountctl/output/output.h"
#include "agent/mountctl/output/replace_file.h"

namespace mountd::agent {
namespace {

constexpr char kMetricsDetails[] = R"(
Details:
  The counts include the allocations, volumes, mounts and plugins that the
  caller may see; root sees all. If mountd does not answer, the output has
  mountd_up 0, and the exit status is still 0.

  To feed node_exporter's textfile collector, enable mountd-metrics.timer.)";

Result<NodeMetrics> AskForMetrics(const ClientOptions& options) {
  MOUNTD_ASSIGN(Client client, Client::Connect(options));
  return CollectMetrics(client);
}

// Exits with success even if mountd does not answer, because the metrics then
// have mountd_up 0, and a collector ignores the output of a program that fails.
int Metrics(const Context& context, const std::string& output) {
  const Result<NodeMetrics> node = AskForMetrics(context.options);
  if (!node && node.error().code == Code::kInvalidArgument) {
    static_cast<void>(Fail(node.error()));
    return kExitUsage;  // the address is no valid address
  }
  if (!node) {
    PrintError(node.error());
  }
  const std::string text = node ? ToExposition(*node) : ExpositionOfNothing();
  if (output.empty()) {
    std::cout << text << std::flush;
    return kExitOk;
  }
  const Result<void> written = ReplaceFile(output, text);
  return written ? kExitOk : Fail(written.error());
}

}  // namespace

void AddMetricsCommand(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand(
      "metrics", "Print counts, times and health in Prometheus' text format");
  command->footer(kMetricsDetails);
  command->group(kNodeGroup);
  auto output = std::make_shared<std::string>();
  command
      ->add_option(
          "--output", *output,
          "Replace this file, readable by all users, instead of printing")
      ->type_name("FILE");
  command->callback([&context, output] {
    context.chosen = [&context, output] { return Metrics(context, *output); };
  });
}

}  // namespace mountd::agent
