//! What unit tests share.

use std::io::Write;
use std::sync::{Arc, Mutex};

/// A page that a log is written on.
#[derive(Clone, Default)]
pub(crate) struct Page(Arc<Mutex<Vec<u8>>>);

impl Page {
    pub(crate) fn text(&self) -> String {
        let bytes = self.0.lock().expect("a page").clone();
        String::from_utf8(bytes).expect("text")
    }
}

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("a page").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
