//! Sends messages to chats.
//!
//! `compose` turns a reply into messages and files. `outbox` sends them in order with `ledger`. `preview` shows a
//! streamed reply while it is written. `question_messages` shows an agent's questions. For files: `media_tags` finds
//! those that a reply names, `file_policy` decides which may be sent, `file_copies` stores them until then, and
//! `chat_files` limits those that people send.

pub(crate) mod chat_files;
mod closed_windows;
mod compose;
mod file_copies;
mod file_policy;
mod ledger;
mod media_tags;
mod outbox;
mod preview;
mod question_messages;

pub use compose::Address;
pub use file_policy::{SendRules, Sendable, open_to_send};
pub(crate) use ledger::LAST_CALL;
pub use ledger::{DeliverError, Interrupts, MAYBE_REPEATED, deliver};
pub use media_tags::{produced, unfinished};
pub(crate) use outbox::file_note;
pub use outbox::{ChatQueue, Outbox};
pub use preview::{Preview, draft_key, show_typing};
pub use question_messages::{CHOICE, ChatQuestionDisplay};
