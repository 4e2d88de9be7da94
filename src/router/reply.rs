//! What is sent of a reply: pieces that the platform takes, and the files that it names.

use std::path::PathBuf;

use super::Inner;
use crate::platform::Platform;
use crate::session::{Source, may_be_sent, produced};
use crate::store::{Extra, NewDelivery};

/// Where a reply goes and what it is called in the ledger.
pub struct Address<'a> {
    /// Names the reply; its pieces are numbered behind it.
    pub key: String,
    pub source: &'a Source,
    pub session_id: &'a str,
    pub handoff_id: Option<i64>,
}

impl Address<'_> {
    fn piece(&self, number: usize, text: String, extra: Extra) -> NewDelivery {
        NewDelivery {
            send_key: format!("{}:{number}", self.key),
            source: self.source.clone(),
            session_id: self.session_id.to_owned(),
            handoff_id: self.handoff_id,
            text,
            extra,
        }
    }

    /// The text in as many messages as it takes.
    fn pieces(&self, text: &str, platform: Option<&dyn Platform>) -> Vec<NewDelivery> {
        let pieces = match platform {
            Some(platform) => platform.pieces(text),
            None => vec![text.to_owned()],
        };
        let piece = |(number, text)| self.piece(number, text, Extra::default());
        pieces.into_iter().enumerate().map(piece).collect()
    }
}

impl Inner {
    /// The text alone.
    pub(super) fn pieces(&self, to: &Address<'_>, text: &str) -> Vec<NewDelivery> {
        let platform = self.platforms.adapter(&to.source.platform);
        to.pieces(text, platform.as_deref())
    }

    /// The reply's text, and behind it the files that it names. What may not be sent is said in the text.
    pub(super) fn with_files(
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
        let rules = self.rules.get();
        let roots: Vec<PathBuf> = cwd
            .into_iter()
            .chain(rules.chats.send_files_from.iter().cloned())
            .collect();
        let mut files = Vec::new();
        for path in named {
            match may_be_sent(&path, &roots, rules.chats.largest_file) {
                Ok(path) => files.push(path),
                Err(why) => text.push_str(&format!("\n\n({why})")),
            }
        }
        let mut sends = to.pieces(&text, platform.as_deref());
        for path in files {
            let extra = Extra {
                file: Some(path),
                ..Extra::default()
            };
            sends.push(to.piece(sends.len(), String::new(), extra));
        }
        sends
    }
}
