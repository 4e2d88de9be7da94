//! What a daemon inside this process logs: often the only sign of a state that it waits in.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tracing::Level;
use tracing::subscriber::DefaultGuard;

use super::eventually;

/// Takes down what is logged on this thread. A test's runtime has no other, so that is all the daemon says.
pub struct Log {
    lines: Arc<Mutex<Vec<u8>>>,
    _guard: DefaultGuard,
}

impl Log {
    pub fn start() -> Log {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let page = Page(lines.clone());
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::DEBUG)
            .with_ansi(false)
            .with_writer(move || page.clone())
            .finish();
        Log {
            lines,
            _guard: tracing::subscriber::set_default(subscriber),
        }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.lines.lock().unwrap()).into_owned()
    }

    /// Waits until `words` have been logged so many times.
    pub async fn says(&self, words: &str, times: usize) {
        eventually(words, || async {
            (self.text().matches(words).count() >= times).then_some(())
        })
        .await;
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if std::thread::panicking() {
            #[allow(clippy::print_stderr)]
            {
                eprintln!("--- the daemon's log ---\n{}", self.text());
            }
        }
    }
}

#[derive(Clone)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
