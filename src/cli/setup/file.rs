//! The configuration file, changed without touching what else stands in it. It holds a token, so it is for its owner alone.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use toml_edit::{Array, DocumentMut, Item, Table, value};

use crate::cli::CliError;

pub(super) struct File {
    path: PathBuf,
    document: DocumentMut,
}

impl File {
    /// The file as it is, or an empty one where there is none.
    pub(super) fn open(path: PathBuf) -> Result<File, CliError> {
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(failed(&path, &error)),
        };
        let document = text.parse().map_err(|error| failed(&path, &error))?;
        Ok(File { path, document })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn set(&mut self, platform: &str, field: &str, text: &str) {
        self.table(platform)[field] = value(text);
    }

    /// Adds to a list what is not in it.
    pub(super) fn add(&mut self, platform: &str, field: &str, items: &[String]) {
        let item = &mut self.table(platform)[field];
        if item.as_array().is_none() {
            // What was written as text with commas becomes a list.
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

    /// Replaces the file at once, for its owner alone.
    pub(super) fn write(&self) -> Result<(), CliError> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        let written = std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .and_then(|()| {
                let mut file = tempfile::NamedTempFile::new_in(directory)?;
                file.write_all(self.document.to_string().as_bytes())?;
                let private = std::fs::Permissions::from_mode(0o600);
                file.as_file().set_permissions(private)?;
                file.as_file().sync_all()?;
                file.persist(&self.path)?;
                Ok(())
            });
        written.map_err(|error| failed(&self.path, &error))
    }
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> CliError {
    CliError::Failed {
        message: format!("{}: {error}", path.display()),
        hint: Some("nothing was changed; --config names another file".into()),
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
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_is_not_there_is_made_and_a_broken_one_is_left() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("new/hermesd.toml");
        let mut file = File::open(path.clone()).unwrap();
        file.set("telegram", "token", "1:x");
        file.write().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "[platforms.telegram]\ntoken = \"1:x\"\n");
        std::fs::write(&path, "= nonsense").unwrap();
        assert!(File::open(path).is_err());
    }
}
