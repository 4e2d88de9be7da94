//! Opens files step by step: first the file itself, which can be judged, then its content. Links are not followed.

use std::fs::{File, Metadata};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;

/// Opens a file below a directory. Links are followed neither there nor out of it.
pub(crate) fn open_below(path: &Path, root: &Path) -> Result<File, String> {
    let found = find(path).map_err(|e| e.to_string())?;
    let place = place_of(&found).map_err(|e| e.to_string())?;
    let root = root.canonicalize().map_err(|e| e.to_string())?;
    if root == Path::new("/") || !place.starts_with(&root) {
        return Err(format!("it is outside of {}", root.display()));
    }
    match metadata(&found) {
        Ok(facts) if facts.is_file() => read(&found).map_err(|e| e.to_string()),
        _ => Err("it is no file".into()),
    }
}

/// The file itself, not yet open for reading: nothing happens to a pipe or a device by that. A link is not followed, and
/// neither are the kernel's own links to what other processes have open.
pub(crate) fn find(path: &Path) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let how = OpenHow::new()
        .flags(flags)
        .resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS);
    match openat2(AT_FDCWD, path, how) {
        // An old kernel, or a sandbox that does not know the call.
        Err(Errno::ENOSYS | Errno::EPERM) => open(path, flags, Mode::empty()),
        found => found,
    }
}

pub(crate) fn metadata(found: &OwnedFd) -> std::io::Result<Metadata> {
    File::from(found.try_clone()?).metadata()
}

/// Where an open file is.
pub(crate) fn place_of(file: &impl AsFd) -> std::io::Result<PathBuf> {
    std::fs::read_link(by_descriptor(file))
}

/// The same file, open for reading. Its name plays no part any more.
pub(crate) fn read(found: &OwnedFd) -> nix::Result<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    open(&by_descriptor(found), flags, Mode::empty()).map(File::from)
}

pub(crate) fn by_descriptor(file: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))
}
