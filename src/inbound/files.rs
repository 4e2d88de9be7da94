//! Fetches the files that people send into the home, under names of our own, before the agent gets the message.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::delivery::chat_files;
use crate::domain::RemoteFile;
use crate::domain::{Attachment, in_words};
use crate::inbound::Inner;
use crate::platform::{CallEffort, CallFailure, Platform, RetryPolicy, with_retries};
use crate::private_files;
use crate::store::retry_while_busy;
use crate::store::{Files, Inbound, StoreError};

/// The longest part of the sender's file name that we use, in characters.
const LONGEST_NAME: usize = 50;

impl Inner {
    /// Fetches the files of a message and adds their names to its text. For a file that cannot be fetched, the text
    /// gives the reason.
    pub(super) async fn fetch_files(&self, inbound: Inbound) -> Result<Inbound, StoreError> {
        let Files::Remote(remote) = &inbound.files else {
            return Ok(inbound);
        };
        let Some(platform) = self.platforms.adapter(&inbound.source.platform) else {
            return Ok(inbound);
        };
        let mut saved = Vec::new();
        let mut missing = Vec::new();
        for (n, file) in remote.iter().enumerate() {
            match self.fetch(platform.as_ref(), &inbound, n, file).await {
                Ok(attachment) => saved.push(attachment),
                // The next start fetches it.
                Err(_) if self.draining.is_cancelled() => return Err(StoreError::Cancelled),
                Err(reason) => {
                    tracing::warn!(reason, inbound = inbound.id, "file not fetched");
                    let name = file.name.as_deref().map_or("a file".into(), shown);
                    missing.push(format!(
                        "[{name} was sent, but could not be received: {reason}]"
                    ));
                }
            }
            if self.stop.is_cancelled() {
                return Err(StoreError::Cancelled);
            }
        }
        let files = saved.clone();
        let named = move |said: &str| {
            let mut text = in_words(said, &files);
            for line in &missing {
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(line);
            }
            text
        };
        let store = || {
            self.store
                .files_saved(inbound.id, named.clone(), saved.clone())
        };
        let text = retry_while_busy(&self.stop, store).await?;
        Ok(Inbound {
            text: text.unwrap_or_else(|| named(&inbound.text)),
            files: Files::Saved(saved),
            ..inbound
        })
    }

    async fn fetch(
        &self,
        platform: &dyn Platform,
        inbound: &Inbound,
        n: usize,
        file: &RemoteFile,
    ) -> Result<Attachment, String> {
        let largest = self.rules.get().chats.largest_file;
        if file.size.is_some_and(|size| size > largest) {
            return Err(format!("it is larger than {} MB", largest / 1_000_000));
        }
        let name = safe_name(file);
        let chat = inbound.source.chat_id.as_deref().unwrap_or_default();
        let directory = chat_files::directory(&self.home, platform.name(), chat);
        private_files::directory(&directory)
            .map_err(|e| format!("{} cannot be created: {e}", directory.display()))?;
        let path = directory.join(format!("{}-{n}-{name}", inbound.id));
        let part = path.with_extension("part");
        let get = |_| platform.fetch(file, &part, largest);
        let (metrics, draining) = (&self.metrics, &self.draining);
        let effort = CallEffort::file(RetryPolicy::Few);
        let got = tokio::select! {
            got = with_retries(platform.name(), effort, metrics, draining, get) => got,
            () = self.stop.cancelled() => Err(CallFailure::Stopping),
        };
        if let Err(unsent) = got {
            let _ = std::fs::remove_file(&part);
            return Err(unsent.to_string());
        }
        let (to, home, limits) = (path.clone(), self.home.clone(), self.outbox.file_limits());
        let placing = move || {
            put_in_place(&part, &to)?;
            chat_files::prune(&home, limits);
            Ok::<(), std::io::Error>(())
        };
        let placed = tokio::task::spawn_blocking(placing).await;
        let placed = placed.map_err(|e| e.to_string())?;
        placed.map_err(|e| e.to_string())?;
        Ok(Attachment {
            kind: file.kind,
            path,
            name,
            mime: file.mime.clone(),
        })
    }
}

/// Flushes a fetched file to the disk and gives it its name. The platform is not asked for it again.
fn put_in_place(part: &Path, path: &Path) -> std::io::Result<()> {
    std::fs::set_permissions(part, std::fs::Permissions::from_mode(0o600))?;
    std::fs::File::open(part)?.sync_all()?;
    std::fs::rename(part, path)?;
    match path.parent() {
        Some(directory) => std::fs::File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

/// A name that is safe in any directory, as close to the sender's name as possible.
fn safe_name(file: &RemoteFile) -> String {
    let given = file.name.as_deref().unwrap_or_default();
    let given = given.rsplit(['/', '\\']).next().unwrap_or_default();
    let kept: String = given
        .chars()
        .map(|c| match c {
            c if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') => c,
            _ => '_',
        })
        .collect();
    let kept = kept.trim_matches(['.', '_']);
    // The extension matters, so a long name loses its beginning.
    let from = kept.chars().count().saturating_sub(LONGEST_NAME);
    let name: String = kept.chars().skip(from).collect();
    match name.trim_start_matches(['.', '_']) {
        "" => "file".into(),
        name => name.to_owned(),
    }
}

fn shown(name: &str) -> String {
    let name: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
    format!("the file {name:?}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::FileKind;

    fn named(name: &str) -> String {
        safe_name(&RemoteFile {
            kind: FileKind::File,
            id: "x".into(),
            name: Some(name.into()),
            mime: None,
            size: None,
        })
    }

    #[test]
    fn names_of_strangers_lead_nowhere() {
        for (given, expected) in [
            ("report.pdf", "report.pdf"),
            ("../../etc/passwd", "passwd"),
            ("..\\..\\boot.ini", "boot.ini"),
            (".bashrc", "bashrc"),
            ("a b\n$(rm).txt", "a_b___rm_.txt"),
            ("..", "file"),
            ("", "file"),
            ("Übersicht.md", "Übersicht.md"),
        ] {
            assert_eq!(named(given), expected, "{given}");
        }
        assert_eq!(
            named(&format!("{}.png", "x".repeat(500))).len(),
            LONGEST_NAME
        );
    }

    proptest! {
        #[test]
        fn no_name_leaves_its_directory(given in ".{0,200}") {
            let name = named(&given);
            prop_assert!(!name.is_empty() && !name.starts_with('.'));
            prop_assert!(!name.contains('/') && !name.contains('\0') && !name.contains('\n'));
            prop_assert!(name.chars().count() <= LONGEST_NAME);
        }
    }
}
