// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "agent/mountctl/doctor/nomad_checks.h"
#include "mountd/base/result.h"

// Collects the facts of nomad_checks.h. Makes no verdicts.
namespace mountd::agent {

// Where the facts are. A test gives others.
struct NomadPlaces {
  std::string etc = "/etc";  // subuid, subgid, mountd/mountd.toml
  std::string sysctl = "/proc/sys";
  std::string modules = "/lib/modules";
  std::string cgroups = "/sys/fs/cgroup";
  std::string config = "/etc/nomad.d";  // of the client: a directory or a file
  std::string cache = "/var/lib/cni/results";
  std::string installed;  // of mountd-nomad; "": as built
  std::string path = "/usr/sbin:/usr/bin:/sbin:/bin";  // without a unit's
};

std::string InstalledNomad();

// nomad.service, as systemd reports it; "not-found" if no systemd runs.
Result<NomadUnit> ReadNomadUnit();

// Returns the first program of one of the names in the PATH, with the links of
// its last part followed; "" if there is none.
std::string FindProgram(const std::string& path,
                        const std::vector<std::string>& names);
// newuidmap and newgidmap are set-user-ID root or have a file capability, and
// no mount option takes that away.
bool IsPrivileged(const std::string& program);

// The number of ids that the file gives the user.
Result<std::uint64_t> CountSubordinateIds(const std::string& file,
                                          const std::string& user);
// Looks where a Nomad client looks: at loaded modules, and at the lists of the
// kernel that runs.
bool FindsBridge(const std::string& modules);
NamespaceSwitches ReadNamespaceSwitches(const std::string& sysctl);
CgroupFacts LookAtCgroup(const std::string& path);
DirectoryFacts LookAtDirectory(const std::string& path);
// Returns the names that are no executable files of the directory.
std::vector<std::string> MissingNames(const std::string& directory,
                                      const std::vector<std::string>& names);
// The user and its groups, by name and by number.
RuleOwner WhoAsks();
// The text of the file, or of all files *.hcl of the directory.
Result<std::string> ReadNomadConfig(const std::string& path);

}  // namespace mountd::agent
