//! Turns a reply into ledger rows: pieces of text that fit the platform, and copies of the files that the reply names.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tokio_util::sync::CancellationToken;

use crate::delivery::Outbox;
use crate::delivery::chat_files::{self, Limits};
use crate::delivery::file_copies;
use crate::delivery::{SendRules, open_to_send, produced};
use crate::domain::Source;
use crate::platform::Platform;
use crate::private_files::home_of_person;
use crate::store::{Delivery, DeliveryExtra, NewDelivery};

const A_DAY: Duration = Duration::from_secs(86_400);

/// The destination of a reply and its name in the ledger.
pub struct Address<'a> {
    /// The name of the reply. Each piece adds its number.
    pub key: String,
    pub source: &'a Source,
    pub session_id: &'a str,
    pub handoff_id: Option<i64>,
}

impl Address<'_> {
    fn piece(&self, number: usize, text: String, extra: DeliveryExtra) -> NewDelivery {
        NewDelivery {
            send_key: format!("{}:{number}", self.key),
            source: self.source.clone(),
            session_id: self.session_id.to_owned(),
            handoff_id: self.handoff_id,
            text,
            extra,
        }
    }

    /// Splits the text into messages.
    fn pieces(&self, text: &str, platform: Option<&dyn Platform>) -> Vec<NewDelivery> {
        let pieces = match platform {
            Some(platform) => platform.split(text),
            None => vec![text.to_owned()],
        };
        let piece = |(number, text)| self.piece(number, text, DeliveryExtra::default());
        pieces.into_iter().enumerate().map(piece).collect()
    }
}

impl Outbox {
    /// The messages of a text without files.
    pub fn text_messages(&self, to: &Address<'_>, text: &str) -> Vec<NewDelivery> {
        let platform = self.platforms.adapter(&to.source.platform);
        to.pieces(text, platform.as_deref())
    }

    /// The messages of a reply: its text, then copies of the files that it names. The text names each file that may not
    /// be sent, with the reason.
    pub async fn reply_messages(
        &self,
        to: &Address<'_>,
        reply: &str,
        cwd: Option<PathBuf>,
    ) -> Vec<NewDelivery> {
        let platform = self.platforms.adapter(&to.source.platform);
        if !platform.as_ref().is_some_and(|p| p.capabilities().files) {
            return to.pieces(reply, platform.as_deref());
        }
        let (mut text, named) = produced(reply);
        let copies = match named.is_empty() {
            true => Vec::new(),
            false => self.copies(to, named, cwd).await,
        };
        let mut files = Vec::new();
        for copy in copies {
            match copy {
                Ok(path) => files.push(path),
                Err(why) => text.push_str(&format!("\n\n({why})")),
            }
        }
        let mut sends = to.pieces(&text, platform.as_deref());
        for path in files {
            let extra = DeliveryExtra {
                file: Some(path),
                ..DeliveryExtra::default()
            };
            sends.push(to.piece(sends.len(), String::new(), extra));
        }
        sends
    }

    /// Copies the files that may be sent to this chat. For each other file, returns a sentence with the reason.
    async fn copies(
        &self,
        to: &Address<'_>,
        named: Vec<PathBuf>,
        cwd: Option<PathBuf>,
    ) -> Vec<Result<PathBuf, String>> {
        let (limits, home) = (self.limits.get(), self.home.clone());
        let (longest, quota) = (limits.largest_file, limits.files_quota);
        // Of the files that people have sent, a chat gets only its own.
        let chat = to.source.chat_id.as_deref().unwrap_or_default();
        let own = chat_files::directory(&home, &to.source.platform, chat);
        let named_roots = limits.send_files_from.iter().cloned();
        let roots: Vec<PathBuf> = cwd.into_iter().chain(named_roots).chain([own]).collect();
        let private: Vec<PathBuf> = home_of_person().chain([home.clone()]).collect();
        let copy = move |path: &PathBuf| {
            let rules = SendRules {
                roots: &roots,
                private: &private,
                longest,
            };
            let opened = open_to_send(path, &rules)?;
            let name = opened.name.clone();
            file_copies::copy(&home, opened, longest, quota)
                .map_err(|why| format!("{name} is not sent: {why}."))
        };
        let all = move || named.iter().map(copy).collect();
        let copied = tokio::task::spawn_blocking(all).await;
        copied.unwrap_or_else(|error| vec![Err(format!("files are not sent: {error}"))])
    }

    /// Removes the copies of files whose messages have ended.
    pub fn forget_copies<'a>(&self, ended: impl IntoIterator<Item = &'a Delivery>) {
        for file in ended.into_iter().filter_map(|d| d.extra.file.as_deref()) {
            file_copies::remove(&self.home, file);
        }
    }

    /// Removes old files and files beyond the quota, at the start and once a day.
    pub async fn tidy_files(self, started: SystemTime, stop: CancellationToken) {
        // A copy exists before its message is stored. Newer copies may belong to a message that is stored soon.
        let mut before = started;
        loop {
            self.tidy(before).await;
            tokio::select! {
                () = tokio::time::sleep(A_DAY) => before = SystemTime::now() - A_DAY,
                () = stop.cancelled() => return,
            }
        }
    }

    /// Removes copies from before `before` that no message needs, and files of chats beyond the limits.
    async fn tidy(&self, before: SystemTime) {
        let wanted = match self.store.files_to_send().await {
            Ok(wanted) => wanted,
            Err(error) => {
                tracing::warn!(%error, "old files not removed");
                return;
            }
        };
        let (home, limits) = (self.home.clone(), self.file_limits());
        let tidied = tokio::task::spawn_blocking(move || {
            let copies = file_copies::sweep(&home, &wanted, before);
            (copies, chat_files::prune(&home, limits))
        });
        if let Ok((copies, files)) = tidied.await
            && (copies, files) != (0, 0)
        {
            tracing::info!(copies, files, "old files removed");
        }
    }

    pub(crate) fn file_limits(&self) -> Limits {
        let limits = self.limits.get();
        Limits {
            age: limits.files_age,
            quota: limits.files_quota,
        }
    }
}
