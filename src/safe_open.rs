//! Opens files in two steps: first a handle that can be checked, then the content of the same file. Links are not
//! followed.

use std::fs::{File, Metadata};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;

/// Opens a regular file below a directory. The real path of the opened file has to be below it.
pub(crate) fn open_below(path: &Path, root: &Path) -> Result<File, String> {
    let found = find(path).map_err(|e| e.to_string())?;
    let place = place_of(&found).map_err(|e| e.to_string())?;
    let root = root.canonicalize().map_err(|e| e.to_string())?;
    if root == Path::new("/") || !place.starts_with(&root) {
        return Err(format!("it is outside of {}", root.display()));
    }
    match metadata(&found) {
        Ok(facts) if facts.is_file() => read(&found).map_err(|e| e.to_string()),
        _ => Err("it is not a regular file".into()),
    }
}

/// A handle that is not open for reading, so it has no effect on a pipe or a device. Follows neither a link at the end
/// of the path nor the kernel's links to files that processes have open.
pub(crate) fn find(path: &Path) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let how = OpenHow::new()
        .flags(flags)
        .resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS);
    match openat2(AT_FDCWD, path, how) {
        // An old kernel, or a sandbox that forbids the call.
        Err(Errno::ENOSYS | Errno::EPERM) => open(path, flags, Mode::empty()),
        found => found,
    }
}

pub(crate) fn metadata(found: &OwnedFd) -> std::io::Result<Metadata> {
    File::from(found.try_clone()?).metadata()
}

/// The real path of an open file.
pub(crate) fn place_of(file: &impl AsFd) -> std::io::Result<PathBuf> {
    std::fs::read_link(by_descriptor(file))
}

/// Opens the same file for reading, whatever its name refers to by now.
pub(crate) fn read(found: &OwnedFd) -> nix::Result<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    open(&by_descriptor(found), flags, Mode::empty()).map(File::from)
}

pub(crate) fn by_descriptor(file: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))
}
