//! Writes the subject of a question that is too long for a chat to a file. The file exists while the question is open.

use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::QuestionId;
use crate::domain::Question;
use crate::domain::question_text;

/// The largest file, in bytes.
const LARGEST: usize = 8 << 20;

/// The path of the file. Dropping it removes the file.
pub(super) struct WholeFile(PathBuf);

impl WholeFile {
    /// `None` if the subject is short or the file cannot be written.
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
        // The file name reveals only a part of the id, because a button answers with the whole id.
        let name = format!("question-{}.txt", &id.to_string()[..8]);
        let (directory, path) = (directory.to_owned(), directory.join(name));
        let written = path.clone();
        let write = move || write(&directory, &written, &text);
        match tokio::task::spawn_blocking(write).await {
            Ok(Ok(())) => Some(WholeFile(path)),
            Ok(Err(error)) => {
                tracing::warn!(%error, path = %path.display(), "cannot save a long question as a file");
                None
            }
            Err(error) => {
                tracing::warn!(%error, "cannot save a long question as a file");
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
            tracing::debug!(%error, path = %self.0.display(), "cannot remove the file of a question");
        }
    }
}

/// Removes the files that a killed daemon left.
pub(super) fn clear(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        if let Err(error) = std::fs::remove_file(entry.path()) {
            tracing::debug!(%error, path = %entry.path().display(), "cannot remove the file of a question");
        }
    }
}
