// What a Landlock ruleset leaves of the file system, in child processes that enter it.
#include "process/landlock.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "child_process.h"
#include "folder.h"
#include "test.h"

namespace svc::process {
namespace {

int ErrorOf(int result) { return result < 0 ? errno : 0; }

// Returns 0 or the errno of opening the file.
int Open(const std::filesystem::path& path, int flags) {
  const int file = open(path.c_str(), flags | O_CLOEXEC, 0600);
  const int error = ErrorOf(file);
  if (file >= 0) close(file);
  return error;
}

// Calls `body` in a child process that has access to these paths only.
template <typename Body>
void ExpectWith(const Paths& paths, Body body) {
  if (LandlockVersion() == 0) {
    std::printf("     this kernel has no Landlock\n");
    return;
  }
  const std::string end = test::EndOfChild([&] {
    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    const int ruleset = MakeRuleset(paths);
    REQUIRE(ruleset >= 0 && EnterRuleset(ruleset) == 0);
    body();
  });
  EXPECT_EQ(end, "");
}

// A folder with the folders "read", "write" and "other", each with a file "file".
struct Tree {
  Tree() {
    for (const char* name : {"read", "write", "other"}) {
      std::filesystem::create_directory(root / name);
      std::ofstream(root / name / "file") << "text";
    }
  }

  const test::Folder folder;
  const std::filesystem::path root = folder.path();
};

TEST(FilesAreReadOnlyWhereItIsAllowed) {
  const Tree tree;
  ExpectWith({.read = {tree.root / "read"}}, [&] {
    EXPECT_EQ(Open(tree.root / "read", O_RDONLY | O_DIRECTORY), 0);
    EXPECT_EQ(Open(tree.root / "read" / "file", O_RDONLY), 0);
    EXPECT_EQ(Open(tree.root / "read" / "file", O_WRONLY), EACCES);
    EXPECT_EQ(Open(tree.root / "read" / "new", O_WRONLY | O_CREAT), EACCES);
    EXPECT_EQ(Open(tree.root / "other" / "file", O_RDONLY), EACCES);
    EXPECT_EQ(Open(tree.root, O_RDONLY | O_DIRECTORY), EACCES);
    EXPECT_EQ(ErrorOf(unlink((tree.root / "read" / "file").c_str())), EACCES);
  });
  // A rule for a single file.
  ExpectWith({.read = {tree.root / "read" / "file"}}, [&] {
    EXPECT_EQ(Open(tree.root / "read" / "file", O_RDONLY), 0);
    EXPECT_EQ(Open(tree.root / "read", O_RDONLY | O_DIRECTORY), EACCES);
  });
}

TEST(FilesAreWrittenOnlyWhereItIsAllowed) {
  const Tree tree;
  ExpectWith({.write = {tree.root / "write"}}, [&] {
    EXPECT_EQ(Open(tree.root / "write" / "file", O_RDWR | O_TRUNC), 0);
    EXPECT_EQ(Open(tree.root / "write" / "new", O_WRONLY | O_CREAT), 0);
    EXPECT_EQ(ErrorOf(mkdir((tree.root / "write" / "folder").c_str(), 0700)), 0);
    EXPECT_EQ(ErrorOf(unlink((tree.root / "write" / "new").c_str())), 0);
    EXPECT_EQ(ErrorOf(symlink("file", (tree.root / "write" / "link").c_str())), EACCES);
    EXPECT_EQ(Open(tree.root / "other" / "file", O_WRONLY), EACCES);
    EXPECT_EQ(ErrorOf(mkdir((tree.root / "other" / "folder").c_str(), 0700)), EACCES);
  });
}

TEST(ALinkInPlaceOfAFolderToWriteGivesNoAccess) {
  const Tree tree;
  std::filesystem::create_symlink(tree.root / "other", tree.root / "link");
  ExpectWith({.write = {tree.root / "link"}},
             [&] { EXPECT_EQ(Open(tree.root / "other" / "file", O_RDONLY), EACCES); });
  // Paths to read may be links, as those of model files are.
  ExpectWith({.read = {tree.root / "link"}},
             [&] { EXPECT_EQ(Open(tree.root / "other" / "file", O_RDONLY), 0); });
}

TEST(APathThatDoesNotExistIsSkipped) {
  const Tree tree;
  ExpectWith({.read = {tree.root / "missing", tree.root / "read"}},
             [&] { EXPECT_EQ(Open(tree.root / "read" / "file", O_RDONLY), 0); });
}

TEST(DevicesCanBeReadAndWrittenAndNoFileCreatedBesideThem) {
  const Tree tree;
  ExpectWith({.devices = {"/dev/null", tree.root / "write"}}, [&] {
    EXPECT_EQ(Open("/dev/null", O_RDWR), 0);
    EXPECT_EQ(Open("/dev/zero", O_RDONLY), EACCES);
    EXPECT_EQ(Open(tree.root / "write" / "file", O_RDWR), 0);
    EXPECT_EQ(Open(tree.root / "write" / "new", O_WRONLY | O_CREAT), EACCES);
  });
}

TEST(NoConnectionIsMadeWhereTheKernelCanForbidIt) {
  if (LandlockVersion() < 4) return;
  ExpectWith({}, [] {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto* to = reinterpret_cast<const sockaddr*>(&address);
    const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(connection >= 0);
    EXPECT_EQ(ErrorOf(bind(connection, to, sizeof(address))), EACCES);
    address.sin_port = htons(9);
    EXPECT_EQ(ErrorOf(connect(connection, to, sizeof(address))), EACCES);
  });
}

}  // namespace
}  // namespace svc::process

TEST_MAIN()
