//! Pure types and rules that all rooms share. No I/O, SQL, wire formats or vendors.

pub(crate) mod attachment;
mod button;
mod ended;
mod farewell;
mod handoff;
mod home_channel;
mod question;
pub mod question_text;
mod refusal_kind;
mod remote_file;
mod reply;
mod session;
mod session_key;
pub mod slash_command;
mod source;
mod thread;
pub mod title;
mod tool_report;
pub mod transcript;
mod transcript_writer;
mod whatsapp_ids;

pub use attachment::{Attachment, FileKind, in_words};
pub use button::Button;
pub use ended::{EndReason, EndedPlace, NOWHERE, ended_note};
pub use farewell::{farewell, no_longer_here, replaced};
pub use handoff::{
    Handoff, HandoffStage, HandoffState, NOTICE_STAYS, RequestedVia, announced_handoff,
    handoff_notice,
};
pub use home_channel::HomeChannel;
pub use question::{Question, QuestionAnswer, QuestionPart};
pub use refusal_kind::RefusalKind;
pub use remote_file::RemoteFile;
pub use reply::{Reply, Usage};
pub use session::{LONGEST_MESSAGE, Session, TERMINAL, TERMINAL_SOURCES};
pub use session_key::{FormerChat, FormerKey, KeyRules, former_keys, session_key};
pub use source::{ChatType, Source};
pub use thread::ThreadOutcome;
pub use tool_report::{ToolReport, ToolState};
pub use transcript_writer::TranscriptWriter;
pub use whatsapp_ids::WhatsAppIds;
