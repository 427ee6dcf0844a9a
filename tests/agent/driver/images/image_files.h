// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

// Writes image layouts as their authors could, malformed ones too.
namespace mountd::driver::test {

// One member of a layer (tar(5), "ustar").
struct TarMember {
  std::string name;  // at most 100 bytes
  char type = '0';   // '0' file, '1' hard link, '2' link, '3' device, '5' dir
  std::string content{};
  std::string target{};  // of a link
  unsigned mode = 0644;
  unsigned uid = 0;
  unsigned gid = 0;
  unsigned major = 0;
  unsigned minor = 0;
};

TarMember TarFile(const std::string& name, const std::string& content,
                  unsigned mode = 0644);
TarMember TarDirectory(const std::string& name, unsigned mode = 0755);
TarMember TarSymlink(const std::string& name, const std::string& target);
TarMember TarHardLink(const std::string& name, const std::string& target);

// Returns the tar file of the members.
std::string Tar(const std::vector<TarMember>& members);

// Owns a layout that is being written at a path.
class LayoutWriter {
 public:
  explicit LayoutWriter(std::string path);

  // Returns the descriptor of a new blob.
  std::string Blob(const std::string& media_type, const std::string& bytes);
  // Adds an image of layers of the type "tar". Returns the hexadecimal digits
  // of its manifest's digest. `run` is the configuration's member "config".
  std::string Add(const std::string& tag,
                  const std::vector<std::string>& layers,
                  const std::string& run = "{}");
  // Adds an image whose layers are these descriptors.
  std::string AddLayers(const std::string& tag,
                        const std::vector<std::string>& descriptors,
                        const std::string& config);
  // Compresses bytes with gzip(1).
  std::string Gzip(const std::string& bytes) const;
  void WriteIndex() const;

  const std::string& path() const { return path_; }
  static constexpr char kTar[] = "application/vnd.oci.image.layer.v1.tar";
  static constexpr char kGzip[] = "application/vnd.oci.image.layer.v1.tar+gzip";

 private:
  const std::string path_;
  std::vector<std::string> entries_;
};

void WriteFile(const std::string& path, const std::string& bytes);
std::string ReadWholeFile(const std::string& path);

}  // namespace mountd::driver::test
