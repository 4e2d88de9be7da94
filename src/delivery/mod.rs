//! What the daemon sends to chats: a reply becomes messages and files (`compose`), the ledger sends each of them (`outbox`,
//! `ledger`), a streamed answer shows while it is written (`preview`), and an agent's question is shown where the person is
//! (`question_messages`).

pub(crate) mod chat_files;
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
pub use preview::{Preview, show_typing};
pub use question_messages::{CHOICE, ChatQuestionDisplay};
