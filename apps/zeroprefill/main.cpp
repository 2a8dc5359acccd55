// The zeroprefill command line.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>

#include "commands.h"
#include "note.h"
#include "zp/base/error.h"
#include "zp/base/excerpt.h"

namespace {

// A message shows what users sent, as lines that a terminal does nothing but show.
std::string shown(std::string_view message) {
  std::string lines;
  for (size_t end = 0; (end = message.find('\n')) != std::string_view::npos; message.remove_prefix(end + 1))
    lines += zp::printable(message.substr(0, end)) + '\n';
  return lines + zp::printable(message);
}

int run_command(const zp::app::Command& command) {
  try {
    const int status = command();
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
    zp::app::note("zeroprefill: io: writing to standard output failed\n");
  } catch (const zp::Error& error) {
    zp::app::note("zeroprefill: {}: {}\n", to_string(error.code()), shown(error.what()));
  } catch (const std::bad_alloc&) {
    zp::app::note("zeroprefill: out_of_memory: the system refused an allocation\n");
  } catch (const std::exception& error) {
    zp::app::note("zeroprefill: {}\n", shown(error.what()));
  }
  return zp::app::kExitError;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error with a name, not a silent end
  CLI::App app("Prefill-only inference for mixture-of-experts models: classify, moderate, verify, choose.");
  app.name("zeroprefill");
  app.require_subcommand(1);
  app.set_version_flag("--version", ZP_VERSION);
  const zp::app::Command run = zp::app::add_run(app);
  const zp::app::Command inspect = zp::app::add_inspect(app);
  const zp::app::Command plan = zp::app::add_plan(app);
  const zp::app::Command simulate = zp::app::add_simulate(app);
  const zp::app::Command tokenize = zp::app::add_tokenize(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream wrong;
    const int status = app.exit(error, std::cout, wrong);
    zp::app::note("{}", shown(wrong.str()));
    return status == 0 ? zp::app::kExitDone : zp::app::kExitUsage;
  }
  if (app.got_subcommand("run")) return run_command(run);
  if (app.got_subcommand("inspect")) return run_command(inspect);
  if (app.got_subcommand("plan")) return run_command(plan);
  if (app.got_subcommand("simulate")) return run_command(simulate);
  return run_command(tokenize);
}
