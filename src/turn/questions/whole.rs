//! The whole of a question that is too long for a chat, as a file. It stays as long as the question is open.

use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::QuestionId;
use crate::domain::Question;
use crate::domain::question_text;

/// The file has no more of it.
const LARGEST: usize = 8 << 20;

/// Removed when it is dropped.
pub(super) struct WholeFile(PathBuf);

impl WholeFile {
    /// `None`: it is short, or it cannot be written.
    pub(super) async fn of(
        question: &Question,
        id: QuestionId,
        directory: &Path,
    ) -> Option<WholeFile> {
        if !question_text::exceeds(&question.subject, question_text::CHAT) {
            return None;
        }
        let mut text = question_text::whole(&question.subject);
        if text.len() > LARGEST {
            let cut = text.floor_char_boundary(LARGEST);
            let more = text.len() - cut;
            text.truncate(cut);
            text.push_str(&format!("\n({more} bytes left out)\n"));
        }
        // The buttons bring the whole id back; the name of a file need not.
        let name = format!("question-{}.txt", &id.to_string()[..8]);
        let (directory, path) = (directory.to_owned(), directory.join(name));
        let written = path.clone();
        let write = move || write(&directory, &written, &text);
        match tokio::task::spawn_blocking(write).await {
            Ok(Ok(())) => Some(WholeFile(path)),
            Ok(Err(error)) => {
                tracing::warn!(%error, path = %path.display(), "a long question could not be kept as a file");
                None
            }
            Err(error) => {
                tracing::warn!(%error, "a long question could not be kept as a file");
                None
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

fn write(directory: &Path, path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(directory)?;
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::debug!(%error, path = %self.0.display(), "the file of a question was not removed");
        }
    }
}

/// Removes what a daemon left that was killed: its questions are gone.
pub(super) fn clear(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        if let Err(error) = std::fs::remove_file(entry.path()) {
            tracing::debug!(%error, path = %entry.path().display(), "the file of a question was not removed");
        }
    }
}
