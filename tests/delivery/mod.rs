//! What is sent to chats, and the files that go with it.

mod closed_window;
mod gone_threads;
mod kept_files;
mod outgoing_files;
