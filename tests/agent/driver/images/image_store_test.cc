// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/images/image_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>

#include "tests/agent/driver/images/store_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"
#include "tests/support/program.h"

namespace mountd::driver::test {
namespace {

class Store : public StoreTest {
 protected:
  // Writes a layout with one image. Returns its manifest's digest.
  std::string WriteWeb(const std::string& layout = "layout",
                       const std::string& content = "index") {
    TarMember home = TarDirectory("home/www", 0700);
    home.uid = 33;
    home.gid = 34;
    LayoutWriter writer(File(layout));
    return writer.Add(
        "v1",
        {Tar({TarDirectory("etc"),
              TarFile("etc/passwd", "www:x:33:34::/home/www:/bin/sh\n"), home,
              TarFile("srv/index", content), TarFile("bin/su", "x", 04755),
              TarFile("gone", "x"), TarFile("old/file", "x")}),
         Tar({TarFile(".wh.gone", ""), TarFile("old/.wh..wh..opq", ""),
              TarFile("old/new", "y")})},
        R"({"Cmd":["serve"],"User":"www","StopSignal":"SIGQUIT"})");
  }
  std::string Oci(const std::string& layout = "layout") const {
    return "oci:" + File(layout) + ":v1";
  }
  // Makes a FIFO to which a confined program can write, though it can write to
  // no other file.
  UniqueFd Fifo() const {
    ::mkfifo(File("fifo").c_str(), 0600);
    return UniqueFd(::open(File("fifo").c_str(), O_RDWR | O_CLOEXEC));
  }
  // Options with a umoci that says in the FIFO that it runs, and does `then`.
  ImageStoreOptions Counting(const std::string& then = "") const {
    ImageStoreOptions options = Options();
    options.umoci = Wrapper(
        "umoci", "echo umoci >" + File("fifo") + "\n" + then, options.umoci);
    return options;
  }
  int NamesIn(const std::string& directory) const {
    int names = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(File(directory))) {
      names += entry.path().empty() ? 0 : 1;
    }
    return names;
  }
  static int LinesIn(const UniqueFd& fifo) {
    ::fcntl(fifo.get(), F_SETFL, O_NONBLOCK);
    char text[4096];
    const ssize_t got = ::read(fifo.get(), text, sizeof(text));
    return got < 0 ? 0 : static_cast<int>(std::count(text, text + got, '\n'));
  }
};

TEST_F(Store, UnpacksALayoutWithItsOwnersAndWhiteouts) {
  const std::string digest = WriteWeb();
  ASSERT_OK_AND_ASSIGN(const Image image, Prepare(Oci()));
  EXPECT_EQ(image.digest, "sha256:" + digest);
  EXPECT_EQ(image.rootfs, File("images/" + digest + "/rootfs"));
  EXPECT_EQ(ReadWholeFile(image.rootfs + "/srv/index"), "index");
  EXPECT_EQ(FactsOf(image.rootfs + "/srv/index"), "0:0 81a4 regular file");
  EXPECT_EQ(FactsOf(image.rootfs + "/home/www"), "33:34 41c0 directory");
  EXPECT_EQ(FactsOf(image.rootfs + "/bin/su"), "0:0 89ed regular file");
  EXPECT_EQ(FactsOf(image.rootfs + "/gone"), "");
  EXPECT_EQ(FactsOf(image.rootfs + "/old/file"), "");
  EXPECT_EQ(FactsOf(image.rootfs + "/old/new"), "0:0 81a4 regular file");
  EXPECT_THAT(image.config.command, ::testing::ElementsAre("serve"));
  EXPECT_EQ(image.config.user, "www");
  EXPECT_EQ(image.config.stop_signal, SIGQUIT);
  EXPECT_THAT(Work(), ::testing::ElementsAre());
}

TEST_F(Store, ReadsEachKindOfArchive) {
  const std::string digest = WriteWeb();
  mountd::test::RunProgram(
      {"/bin/tar", "-C", File("layout"), "-cf", File("oci.tar"), "."});
  ASSERT_OK_AND_ASSIGN(const Image oci,
                       Prepare("oci-archive:" + File("oci.tar") + ":v1"));
  EXPECT_EQ(oci.digest, "sha256:" + digest);
  const mountd::test::ProgramOutcome saved = mountd::test::RunProgram(
      {"/usr/bin/skopeo", "--tmpdir", File("."), "copy", Oci(),
       "docker-archive:" + File("docker.tar") + ":web:1"});
  ASSERT_EQ(saved.status, 0) << saved.err;
  ASSERT_OK_AND_ASSIGN(
      const Image docker,
      Prepare("docker-archive:" + File("docker.tar") + ":web:1"));
  EXPECT_EQ(ReadWholeFile(docker.rootfs + "/srv/index"), "index");
  EXPECT_EQ(FactsOf(docker.rootfs + "/home/www"), "33:34 41c0 directory");
  EXPECT_EQ(docker.config, oci.config);
}

TEST_F(Store, TakesADirectoryAsItIs) {
  ASSERT_OK_AND_ASSIGN(
      const Image image,
      Prepare("dir:" + File(".").substr(0, File(".").size() - 2)));
  EXPECT_EQ(image.digest, "");
  EXPECT_EQ(image.config, ImageConfig());
  WriteFile(File("file"), "");
  EXPECT_THAT(Prepare("dir:" + File("file")),
              IsErrOf(Code::kInvalidArgument, "must be a directory"));
  EXPECT_THAT(Prepare("dir:" + File("none")), IsErr(Code::kNotFound));
}

TEST_F(Store, UnpacksOnceForADigest) {
  WriteWeb();
  const UniqueFd fifo = Fifo();
  const ImageStoreOptions options = Counting();
  ASSERT_OK_AND_ASSIGN(const Image first, PrepareWith(options, Oci()));
  ASSERT_OK_AND_ASSIGN(const Image second, PrepareWith(options, Oci()));
  EXPECT_EQ(first.rootfs, second.rootfs);
  // Another reference to the same image.
  std::filesystem::copy(File("layout"), File("copy"),
                        std::filesystem::copy_options::recursive);
  ASSERT_OK_AND_ASSIGN(const Image third, PrepareWith(options, Oci("copy")));
  EXPECT_EQ(first.rootfs, third.rootfs);
  EXPECT_EQ(LinesIn(fifo), 1);
}

TEST_F(Store, TwoAtOnceUnpackOnce) {
  WriteWeb();
  std::filesystem::copy(File("layout"), File("copy"),
                        std::filesystem::copy_options::recursive);
  const UniqueFd fifo = Fifo();
  const ImageStoreOptions options = Counting("sleep 0.5");
  std::vector<std::thread> threads;
  std::atomic<int> prepared = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const Result<Image> image =
          PrepareWith(options, Oci(i % 2 == 0 ? "layout" : "copy"));
      EXPECT_THAT(image, IsOk());
      prepared += image.has_value() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(prepared, 4);
  EXPECT_EQ(LinesIn(fifo), 1);
}

TEST_F(Store, FollowsATagToItsNewImage) {
  const std::string old_digest = WriteWeb();
  ASSERT_THAT(Prepare(Oci()), IsOk());
  const std::string new_digest = WriteWeb("layout", "new");
  ASSERT_NE(old_digest, new_digest);
  ASSERT_OK_AND_ASSIGN(const Image image, Prepare(Oci()));
  EXPECT_EQ(image.digest, "sha256:" + new_digest);
  EXPECT_EQ(ReadWholeFile(image.rootfs + "/srv/index"), "new");
}

// Kills a process in the middle of its Prepare, and calls again.
TEST_F(Store, AKilledUnpackLeavesWhatTheNextCallRemoves) {
  WriteWeb();
  WriteWeb("other", "other");
  const UniqueFd fifo = Fifo();
  const ImageStoreOptions slow = Counting(
      "mkdir -p image/rootfs/half; chown 7 image/rootfs/half; "
      "chmod 0 image/rootfs/half; echo half >" +
      File("fifo") + "; exec sleep 1000");
  const pid_t child = ::fork();
  if (child == 0) {
    IgnoreBecauseBestEffort(PrepareWith(slow, Oci()));
    ::_exit(0);
  }
  std::string text;
  while (text.find("half") == std::string::npos) {
    char part[64];
    const ssize_t got = ::read(fifo.get(), part, sizeof(part));
    ASSERT_GT(got, 0);
    text.append(part, static_cast<std::size_t>(got));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(Work().size(), 1U);
  // Any image's next call removes it, once its lock is free.
  ASSERT_OK_AND_ASSIGN(const Image image, Prepare(Oci()));
  EXPECT_EQ(ReadWholeFile(image.rootfs + "/srv/index"), "index");
  EXPECT_EQ(FactsOf(image.rootfs + "/half"), "");
  EXPECT_THAT(Work(), ::testing::ElementsAre());
}

// Kills a process at many moments of its Prepare and its RemoveUnused.
TEST_F(Store, AKillAtAnyMomentIsMended) {
  const std::string digest = WriteWeb();
  for (int moment = 0; moment < 24; ++moment) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (;;) {
        IgnoreBecauseBestEffort(Prepare(Oci()));
        IgnoreBecauseBestEffort(OpenStore().RemoveUnused({}, TaskNamespace()));
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + 13 * moment));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ASSERT_OK_AND_ASSIGN(const Image image, Prepare(Oci()));
    EXPECT_EQ(ReadWholeFile(image.rootfs + "/srv/index"), "index");
    EXPECT_EQ(FactsOf(image.rootfs + "/old/new"), "0:0 81a4 regular file");
    // A program of the killed process has the lock until the program has ended,
    // too, and the removal leaves that one's files.
    EXPECT_TRUE(mountd::testing::Eventually([&] {
      return OpenStore().RemoveUnused({image.digest}, TaskNamespace()) &&
             Work().empty();
    })) << moment;
    EXPECT_EQ(NamesIn("images"), 4) << moment;
    EXPECT_EQ(NamesIn("images/names"), 1) << moment;
    EXPECT_EQ(NamesIn("images/" + digest), 2) << moment;
  }
}

TEST_F(Store, RemovesLeftoversOfOtherImages) {
  WriteWeb();
  OpenStore();
  const std::string left = File("images/work/" + std::string(64, 'a'));
  std::filesystem::create_directory(left);
  InNamespace({"/bin/sh", "-c",
               "mkdir -p " + left + "/d/e; chown -R 7 " + left +
                   "/d; chmod 0 " + left + "/d"});
  ASSERT_THAT(Prepare(Oci()), IsOk());
  EXPECT_THAT(Work(), ::testing::ElementsAre());
}

TEST_F(Store, RemovesImagesThatNobodyUses) {
  const std::string one = WriteWeb("one", "one");
  const std::string two = WriteWeb("two", "two");
  const std::string three = WriteWeb("three", "three");
  ASSERT_OK_AND_ASSIGN(const Image held, Prepare(Oci("one")));
  ASSERT_THAT(Prepare(Oci("two")), IsOk());
  ASSERT_THAT(Prepare(Oci("three")), IsOk());
  ASSERT_OK_AND_ASSIGN(
      const std::vector<std::string> removed,
      OpenStore().RemoveUnused({"sha256:" + two}, TaskNamespace()));
  EXPECT_THAT(removed, ::testing::ElementsAre("sha256:" + three));
  EXPECT_TRUE(std::filesystem::exists(File("images/" + one)));
  EXPECT_TRUE(std::filesystem::exists(File("images/" + two)));
  EXPECT_FALSE(std::filesystem::exists(File("images/" + three)));
  EXPECT_THAT(Work(), ::testing::ElementsAre());
  // The image comes back when a task wants it.
  ASSERT_THAT(Prepare(Oci("three")), IsOk());
  EXPECT_TRUE(std::filesystem::exists(File("images/" + three)));
}

TEST_F(Store, MendsAnImageThatLostAPart) {
  const std::string digest = WriteWeb();
  ASSERT_THAT(Prepare(Oci()), IsOk());
  std::filesystem::remove(File("images/" + digest + "/config.json"));
  ASSERT_THAT(Prepare(Oci()), IsOk());
}

TEST_F(Store, EndsAtItsTimeout) {
  WriteWeb();
  const UniqueFd fifo = Fifo();
  ImageStoreOptions options = Counting("exec sleep 1000");
  options.timeout = std::chrono::seconds(2);
  EXPECT_THAT(PrepareWith(options, Oci()),
              IsErrOf(Code::kDeadlineExceeded, Oci()));
  EXPECT_THAT(Work(), ::testing::ElementsAre());
}

// The look at the blobs comes before the first program, and ends at the timeout
// before it meets the FIFO.
TEST_F(Store, EndsAtItsTimeoutBetweenTwoBlobs) {
  WriteWeb();
  const std::string blob = File("layout/blobs/sha256/fifo");
  ASSERT_EQ(::mkfifo(blob.c_str(), 0600), 0);
  EXPECT_THAT(Prepare(Oci()), IsErrOf(Code::kInvalidArgument,
                                      "blob fifo must be a regular file"));
  ImageStoreOptions options = Options();
  options.timeout = std::chrono::milliseconds(0);
  EXPECT_THAT(PrepareWith(options, Oci()),
              IsErrOf(Code::kDeadlineExceeded, "read the blobs"));
}

TEST_F(Store, SaysWhichProgramIsMissing) {
  WriteWeb();
  ImageStoreOptions options = Options();
  options.umoci = File("none");
  EXPECT_THAT(PrepareWith(options, Oci()),
              IsErrOf(Code::kNotFound, "install the Debian package"));
}

TEST_F(Store, IsForItsUserAlone) {
  ImageStoreOptions options = Options();
  std::filesystem::create_directory(options.directory);
  ::chmod(options.directory.c_str(), 0755);
  EXPECT_THAT(ImageStore::Open(options),
              IsErrOf(Code::kPermissionDenied, "mode 0700"));
  std::filesystem::remove(options.directory);
  std::filesystem::create_symlink(File("."), options.directory);
  EXPECT_THAT(ImageStore::Open(options), IsErr(Code::kPermissionDenied));
  options.directory = File("none/images");
  EXPECT_THAT(ImageStore::Open(options),
              IsErrOf(Code::kNotFound, "make its parent first"));
  options.directory = File("a:b");
  EXPECT_THAT(ImageStore::Open(options), IsErr(Code::kInvalidArgument));
}

TEST_F(Store, NamesAMissingImage) {
  WriteWeb();
  EXPECT_THAT(Prepare("oci:" + File("none") + ":v1"), IsErr(Code::kNotFound));
  EXPECT_THAT(Prepare("oci:" + File("layout") + ":v2"),
              IsErrOf(Code::kNotFound, "no image of that tag"));
  EXPECT_THAT(Prepare("oci-archive:" + File("none.tar")),
              IsErr(Code::kNotFound));
  WriteFile(File("empty.tar"), "");
  EXPECT_THAT(Prepare("oci-archive:" + File("empty.tar")),
              IsErrOf(Code::kInvalidArgument, "skopeo copy"));
  EXPECT_THAT(Prepare("docker-archive:" + File("empty.tar")),
              IsErrOf(Code::kInvalidArgument, "skopeo copy"));
}

}  // namespace
}  // namespace mountd::driver::test
