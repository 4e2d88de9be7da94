//! What is sent to chats, and the files that go with it.

mod kept_files;
mod outgoing_files;
