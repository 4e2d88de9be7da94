//! Changes settings in the configuration file and keeps everything else in it. The file holds a token, so only its
//! owner can read a new one. An existing file keeps its owner, group and mode, because the daemon may read it as
//! another user.

use std::fs::{Metadata, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use toml_edit::{Array, DocumentMut, Item, Table, value};

use crate::cli::CliError;
use crate::private_files;

/// The number of links in a row that the kernel follows.
const LONGEST_CHAIN: usize = 40;

pub(super) struct File {
    path: PathBuf,
    document: DocumentMut,
    /// As it is on the disk.
    text: String,
}

impl File {
    /// Opens the file, or an empty document if it does not exist.
    pub(super) fn open(path: PathBuf) -> Result<File, CliError> {
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(failed(&path, &error)),
        };
        let document = text
            .parse::<DocumentMut>()
            .map_err(|error| failed(&path, &error))?;
        Ok(File {
            path,
            document,
            text,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn set(&mut self, platform: &str, field: &str, text: &str) {
        self.table(platform)[field] = value(text);
    }

    /// Adds the missing items to a list.
    pub(super) fn add(&mut self, platform: &str, field: &str, items: &[String]) {
        let item = &mut self.table(platform)[field];
        if item.as_array().is_none() {
            // A text with commas becomes a list.
            let before = item.as_str().unwrap_or_default().to_owned();
            let before = before.split(',').map(str::trim).filter(|id| !id.is_empty());
            *item = value(before.map(str::to_owned).collect::<Array>());
        }
        let Some(list) = item.as_array_mut() else {
            return;
        };
        for new in items {
            let known = list.iter().any(|item| {
                item.as_str() == Some(new)
                    || item.as_integer().is_some_and(|n| n.to_string() == *new)
            });
            if !known {
                list.push(new);
            }
        }
    }

    /// Names the home, and removes what belonged to another one.
    pub(super) fn set_home(&mut self, platform: &str, chat: &str, name: Option<&str>) {
        let before = self.table(platform).get("home_channel");
        let is_same = before.is_some_and(|before| {
            before.as_str() == Some(chat)
                || before.as_integer().is_some_and(|n| n.to_string() == chat)
        });
        if !is_same && let Some(table) = self.table(platform).as_table_like_mut() {
            for field in ["name", "thread", "user"] {
                table.remove(&format!("home_channel_{field}"));
            }
        }
        self.set(platform, "home_channel", chat);
        if let Some(name) = name {
            self.set(platform, "home_channel_name", name);
        }
    }

    fn table(&mut self, platform: &str) -> &mut Item {
        let table = |implicit| {
            let mut table = Table::new();
            table.set_implicit(implicit);
            Item::Table(table)
        };
        let platforms = self.document.entry("platforms").or_insert(table(true));
        if platforms.get(platform).is_none() {
            platforms[platform] = table(false);
        }
        &mut platforms[platform]
    }

    /// Replaces the file atomically if something has changed. A link stays a link: its target is replaced.
    pub(super) fn write(&mut self) -> Result<(), CliError> {
        let text = self.document.to_string();
        if text != self.text {
            replace(&self.path, &text).map_err(|error| failed(&self.path, &error))?;
            self.text = text;
        }
        Ok(())
    }

    /// Whether users other than the owner and the group can read it.
    pub(super) fn is_open_to_others(&self) -> bool {
        let facts = self.path.metadata();
        facts.is_ok_and(|facts| facts.permissions().mode() & 0o004 != 0)
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let path = behind_links(path)?;
    let directory = path.parent().unwrap_or(Path::new("."));
    private_files::directory(directory)?;
    let before = match path.metadata() {
        Ok(facts) => Some(facts),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(text.as_bytes())?;
    let mode = match &before {
        Some(before) => {
            keep_owner(file.as_file(), before)?;
            before.permissions().mode() & 0o7777
        }
        None => private_files::FILE,
    };
    file.as_file()
        .set_permissions(Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(&path)?;
    Ok(())
}

fn keep_owner(file: &std::fs::File, before: &Metadata) -> io::Result<()> {
    let now = file.metadata()?;
    if (now.uid(), now.gid()) == (before.uid(), before.gid()) {
        return Ok(());
    }
    let changed = |id: u32, was: u32| (id != was).then_some(was);
    let (user, group) = (
        changed(now.uid(), before.uid()),
        changed(now.gid(), before.gid()),
    );
    fchown(file, user, group).map_err(|error| {
        let why = format!("only root can keep its owner and group, which are not yours ({error})");
        io::Error::new(error.kind(), why)
    })
}

/// The target of the links of a path. It need not exist.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LONGEST_CHAIN {
        match std::fs::read_link(&path) {
            Ok(next) => path = path.parent().unwrap_or(Path::new("")).join(next),
            // Not a link, or it does not exist.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(path),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many links"))
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> CliError {
    CliError::Failed {
        message: format!("{}: {error}", path.display()),
        hint: Some("nothing was changed: name another file with --config".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_else_stands_in_the_file_stays_as_it_is() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("deep/er/hermesd.toml");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let before = "# mine\n[log]\nlevel = \"debug\" # for now\n\n[platforms.telegram]\nallowed_users = \"1, 2\"\n";
        std::fs::write(&path, before).unwrap();
        let mut file = File::open(path.clone()).unwrap();
        file.set("telegram", "token", "1:x");
        file.add("telegram", "allowed_users", &["2".into(), "3".into()]);
        file.write().unwrap();
        let after = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            after,
            "# mine\n[log]\nlevel = \"debug\" # for now\n\n[platforms.telegram]\nallowed_users = [\"1\", \"2\", \"3\"]\ntoken = \"1:x\"\n"
        );
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_file_keeps_its_mode_its_owner_and_its_links() {
        let home = tempfile::tempdir().unwrap();
        let (real, link) = (home.path().join("real/one.toml"), home.path().join("link"));
        std::fs::create_dir(real.parent().unwrap()).unwrap();
        std::fs::write(&real, "").unwrap();
        std::fs::set_permissions(&real, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("hop", &link).unwrap();
        std::os::unix::fs::symlink("real/one.toml", home.path().join("hop")).unwrap();
        let is_root = nix::unistd::geteuid().is_root();
        if is_root {
            std::os::unix::fs::chown(&real, Some(12345), Some(23456)).unwrap();
        }
        let mut file = File::open(link.clone()).unwrap();
        file.set("telegram", "token", "1:x");
        file.write().unwrap();
        assert!(link.is_symlink() && home.path().join("hop").is_symlink());
        assert!(std::fs::read_to_string(&real).unwrap().contains("1:x"));
        assert_eq!(mode(&real), 0o640);
        let facts = real.metadata().unwrap();
        if is_root {
            assert_eq!((facts.uid(), facts.gid()), (12345, 23456));
        }
        assert!(!file.is_open_to_others());
        std::fs::set_permissions(&real, Permissions::from_mode(0o644)).unwrap();
        assert!(file.is_open_to_others());
        let left = std::fs::read_dir(real.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "nothing is left beside it");
    }

    #[test]
    fn another_home_does_not_keep_the_thread_of_the_one_before() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("hermesd.toml");
        let before = "[platforms.discord]\nhome_channel = 1\nhome_channel_name = \"old\"\nhome_channel_thread = \"2\"\n";
        std::fs::write(&path, before).unwrap();
        let mut file = File::open(path.clone()).unwrap();
        file.set_home("discord", "1", None);
        file.write().unwrap();
        let after = std::fs::read_to_string(&path).unwrap();
        assert_eq!(after, before.replace("= 1", "= \"1\""));
        file.set_home("discord", "3", Some("new"));
        file.write().unwrap();
        let after = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            after,
            "[platforms.discord]\nhome_channel = \"3\"\nhome_channel_name = \"new\"\n"
        );
    }

    #[test]
    fn a_link_to_nothing_and_a_circle_of_links() {
        let home = tempfile::tempdir().unwrap();
        let (link, target) = (home.path().join("link"), home.path().join("dots/one.toml"));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let mut file = File::open(link.clone()).unwrap();
        file.set("telegram", "token", "1:x");
        file.write().unwrap();
        assert!(link.is_symlink());
        assert_eq!(
            (mode(&target), mode(target.parent().unwrap())),
            (0o600, 0o700)
        );
        let circle = home.path().join("circle");
        std::os::unix::fs::symlink("circle", &circle).unwrap();
        assert!(replace(&circle, "").is_err());
    }

    #[test]
    fn a_file_that_is_not_there_is_made_and_a_broken_one_is_left() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("new/hermesd.toml");
        let mut file = File::open(path.clone()).unwrap();
        file.set("telegram", "token", "1:x");
        file.write().unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "[platforms.telegram]\ntoken = \"1:x\"\n");
        std::fs::write(&path, "= nonsense").unwrap();
        assert!(File::open(path).is_err());
    }
}
