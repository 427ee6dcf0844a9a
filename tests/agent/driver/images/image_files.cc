// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/agent/driver/images/image_files.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string_view>

#include "agent/driver/images/digest.h"
#include "tests/support/program.h"

namespace mountd::driver::test {
namespace {

constexpr std::size_t kTarBlock = 512;
constexpr char kManifestType[] = "application/vnd.oci.image.manifest.v1+json";
constexpr char kConfigType[] = "application/vnd.oci.image.config.v1+json";

void PutText(std::string& header, std::size_t at, const std::string& text) {
  std::copy(text.begin(), text.end(),
            header.begin() + static_cast<std::ptrdiff_t>(at));
}

void PutOctal(std::string& header, std::size_t at, int digits,
              std::size_t value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%0*zo", digits, value);
  PutText(header, at, text.data());
}

// The offsets are those of tar(5).
std::string HeaderOf(const TarMember& member) {
  std::string header(kTarBlock, '\0');
  PutText(header, 0, member.name.substr(0, 100));
  PutOctal(header, 100, 7, member.mode);
  PutOctal(header, 108, 7, member.uid);
  PutOctal(header, 116, 7, member.gid);
  PutOctal(header, 124, 11, member.content.size());
  PutOctal(header, 136, 11, 0);
  PutText(header, 148, std::string(8, ' '));
  header[156] = member.type;
  PutText(header, 157, member.target.substr(0, 100));
  PutText(header, 257, std::string("ustar\00000", 8));
  PutOctal(header, 329, 7, member.major);
  PutOctal(header, 337, 7, member.minor);
  const std::size_t sum =
      std::accumulate(header.begin(), header.end(), std::size_t{0},
                      [](std::size_t so_far, char c) {
                        return so_far + static_cast<unsigned char>(c);
                      });
  PutOctal(header, 148, 6, sum);
  header[154] = '\0';
  return header;
}

std::string Joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    text += (text.empty() ? "" : ",") + part;
  }
  return text;
}

}  // namespace

TarMember TarFile(const std::string& name, const std::string& content,
                  unsigned mode) {
  TarMember member{name};
  member.content = content;
  member.mode = mode;
  return member;
}

TarMember TarDirectory(const std::string& name, unsigned mode) {
  TarMember member{name, '5'};
  member.mode = mode;
  return member;
}

TarMember TarSymlink(const std::string& name, const std::string& target) {
  TarMember member{name, '2'};
  member.target = target;
  return member;
}

TarMember TarHardLink(const std::string& name, const std::string& target) {
  TarMember member{name, '1'};
  member.target = target;
  return member;
}

std::string Tar(const std::vector<TarMember>& members) {
  std::string tar;
  for (const TarMember& member : members) {
    tar += HeaderOf(member) + member.content;
    tar.resize((tar.size() + kTarBlock - 1) / kTarBlock * kTarBlock);
  }
  return tar + std::string(2 * kTarBlock, '\0');
}

LayoutWriter::LayoutWriter(std::string path) : path_(std::move(path)) {
  std::filesystem::create_directories(path_ + "/blobs/sha256");
  WriteFile(path_ + "/oci-layout", R"({"imageLayoutVersion":"1.0.0"})");
}

std::string LayoutWriter::Blob(const std::string& media_type,
                               const std::string& bytes) {
  const std::string digest = Sha256Hex(bytes);
  WriteFile(path_ + "/blobs/sha256/" + digest, bytes);
  return R"({"mediaType":")" + media_type + R"(","digest":"sha256:)" + digest +
         R"(","size":)" + std::to_string(bytes.size()) + "}";
}

std::string LayoutWriter::Add(const std::string& tag,
                              const std::vector<std::string>& layers,
                              const std::string& run) {
  std::vector<std::string> descriptors;
  std::vector<std::string> ids;
  for (const std::string& layer : layers) {
    descriptors.push_back(Blob(kGzip, Gzip(layer)));
    ids.push_back("\"sha256:" + Sha256Hex(layer) + "\"");
  }
  return AddLayers(tag, descriptors,
                   R"({"architecture":"amd64","os":"linux","config":)" + run +
                       R"(,"rootfs":{"type":"layers","diff_ids":[)" +
                       Joined(ids) + "]}}");
}

std::string LayoutWriter::AddLayers(const std::string& tag,
                                    const std::vector<std::string>& descriptors,
                                    const std::string& config) {
  const std::string manifest = R"({"schemaVersion":2,"mediaType":")" +
                               std::string(kManifestType) + R"(","config":)" +
                               Blob(kConfigType, config) + R"(,"layers":[)" +
                               Joined(descriptors) + "]}";
  std::string entry = Blob(kManifestType, manifest);
  entry.pop_back();
  entries_.push_back(
      entry + R"(,"annotations":{"org.opencontainers.image.ref.name":")" + tag +
      "\"}}");
  WriteIndex();
  return Sha256Hex(manifest);
}

std::string LayoutWriter::Gzip(const std::string& bytes) const {
  const std::string file = path_ + "/to-gzip";
  WriteFile(file, bytes);
  mountd::test::RunProgram({"/usr/bin/gzip", "-nf1", file});
  std::string gzip = ReadWholeFile(file + ".gz");
  std::filesystem::remove(file + ".gz");
  return gzip;
}

void LayoutWriter::WriteIndex() const {
  WriteFile(path_ + "/index.json",
            R"({"schemaVersion":2,"manifests":[)" + Joined(entries_) + "]}");
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace mountd::driver::test
