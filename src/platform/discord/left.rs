//! Shows on a thread that its session has left it: renames the thread, or archives it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use serenity::http::Route;

use super::Discord;
use super::channel::{channel_id, id_of};
use super::config::ArchiveLeft;
use super::failure::Failure;
use super::threads::LONGEST_NAME;
use crate::domain::Source;
use crate::platform::PlatformError;

/// Begins the name of a thread that its session has left.
const PREFIX: &str = "[left] ";

/// How often a change is tried that Discord delays. It allows two new names of a thread in ten minutes.
const TRIES: usize = 3;
/// The longest wait for the next try.
const LONGEST_PAUSE: Duration = Duration::from_secs(1200);

/// The changes of threads that are not done yet.
#[derive(Default)]
pub(super) struct Departures {
    newest: Mutex<Newest>,
    /// A change reads the thread before it writes it.
    changing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Newest {
    /// The number of the last change.
    last: u64,
    /// The newest change of each thread. An older one that waits is given up.
    of_thread: HashMap<String, u64>,
}

impl Departures {
    fn newest(&self) -> MutexGuard<'_, Newest> {
        self.newest.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Begins a change of a thread and returns its number.
    fn begin(&self, thread: &str) -> u64 {
        let mut newest = self.newest();
        newest.last += 1;
        let number = newest.last;
        newest.of_thread.insert(thread.to_owned(), number);
        number
    }

    fn is_newest(&self, thread: &str, number: u64) -> bool {
        self.newest().of_thread.get(thread) == Some(&number)
    }

    fn end(&self, thread: &str, number: u64) {
        if self.is_newest(thread, number) {
            self.newest().of_thread.remove(thread);
        }
    }
}

/// The name of a thread that its session has left. `None`: it has such a name.
fn left_name(name: &str) -> Option<String> {
    let room = LONGEST_NAME - PREFIX.chars().count();
    let cut: String = name.chars().take(room).collect();
    (!name.starts_with(PREFIX)).then(|| format!("{PREFIX}{}", cut.trim_end()))
}

/// The change of a thread whose session has left. `None`: the thread needs none.
fn departure(mode: ArchiveLeft, thread: &Value) -> Option<Value> {
    let is_archived = thread.pointer("/thread_metadata/archived") == Some(&json!(true));
    let name = id_of(thread, "name").unwrap_or_default();
    match mode {
        ArchiveLeft::No => None,
        ArchiveLeft::Rename => left_name(&name).map(|name| json!({"name": name})),
        ArchiveLeft::Archive => (!is_archived).then(|| json!({"archived": true})),
    }
}

/// The change of a thread that has a session again. A message opens an archived thread by itself.
fn comeback(mode: ArchiveLeft, thread: &Value) -> Option<Value> {
    let name = id_of(thread, "name").unwrap_or_default();
    let name = name.strip_prefix(PREFIX).filter(|name| !name.is_empty())?;
    // The name of an archived thread cannot be changed.
    (mode == ArchiveLeft::Rename).then(|| json!({"name": name, "archived": false}))
}

impl Discord {
    pub(super) async fn show_departure(&self, thread: &Source) -> Result<(), PlatformError> {
        self.change_thread(thread, departure).await
    }

    pub(super) async fn show_return(&self, thread: &Source) -> Result<(), PlatformError> {
        self.change_thread(thread, comeback).await
    }

    /// Changes a thread as it is then. If Discord delays the change, it is tried again, unless a newer one follows.
    async fn change_thread(
        &self,
        thread: &Source,
        change: fn(ArchiveLeft, &Value) -> Option<Value>,
    ) -> Result<(), PlatformError> {
        let (ArchiveLeft::Rename | ArchiveLeft::Archive, Some(id)) =
            (self.rules.archive_left, &thread.thread_id)
        else {
            return Ok(());
        };
        let number = self.departures.begin(id);
        let mut outcome = Ok(());
        for _ in 0..TRIES {
            outcome = self.change_once(id, number, change).await;
            let Err(Failure::Wait(pause)) = &outcome else {
                break;
            };
            tracing::debug!(?pause, chat = id, "change of a thread waits");
            tokio::time::sleep((*pause).min(LONGEST_PAUSE)).await;
        }
        self.departures.end(id, number);
        Ok(outcome?)
    }

    async fn change_once(
        &self,
        id: &str,
        number: u64,
        change: fn(ArchiveLeft, &Value) -> Option<Value>,
    ) -> Result<(), Failure> {
        let _changing = self.departures.changing.lock().await;
        if !self.departures.is_newest(id, number) {
            return Ok(());
        }
        let channel_id = channel_id(id)?;
        let now = self.api.get(Route::Channel { channel_id }).await?;
        match change(self.rules.archive_left, &now) {
            Some(body) => {
                let changed = self.api.patch(Route::Channel { channel_id }, &body);
                changed.await.map(drop)
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(name: &str, archived: bool) -> Value {
        json!({"name": name, "thread_metadata": {"archived": archived, "locked": false}})
    }

    #[test]
    fn a_change_that_is_done_is_not_repeated() {
        let (rename, archive) = (ArchiveLeft::Rename, ArchiveLeft::Archive);
        let renamed = departure(rename, &thread("plans", false)).unwrap();
        assert_eq!(renamed, json!({"name": "[left] plans"}));
        assert_eq!(departure(rename, &thread("[left] plans", false)), None);
        let back = comeback(rename, &thread("[left] plans", true)).unwrap();
        assert_eq!(back, json!({"name": "plans", "archived": false}));
        assert_eq!(comeback(rename, &thread("plans", false)), None);
        let archived = departure(archive, &thread("plans", false)).unwrap();
        assert_eq!(archived, json!({"archived": true}));
        assert_eq!(departure(archive, &thread("plans", true)), None);
        assert_eq!(comeback(archive, &thread("plans", true)), None);
        assert_eq!(departure(ArchiveLeft::No, &thread("plans", false)), None);
    }

    #[test]
    fn a_name_fits_with_its_prefix() {
        let name = left_name(&"ä".repeat(100)).unwrap();
        assert_eq!(name.chars().count(), 100);
    }

    #[test]
    fn a_newer_change_replaces_one_that_waits() {
        let departures = Departures::default();
        let (first, other) = (departures.begin("1"), departures.begin("2"));
        let second = departures.begin("1");
        assert!(!departures.is_newest("1", first));
        assert!(departures.is_newest("1", second) && departures.is_newest("2", other));
        departures.end("1", first);
        assert!(departures.is_newest("1", second));
        departures.end("1", second);
        assert!(!departures.is_newest("1", second));
    }
}
