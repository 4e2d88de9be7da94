//! Wraps an adapter and passes each call to it when the rate limits have room.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::limiter::{CallNeeds, Permit, RateLimiter};
use super::{Priority, Rates, ThreadRoom, test_rates};
use crate::domain::{HomeChannel, RemoteFile, Source, ThreadOutcome};
use crate::metrics::{Metrics, WaitReason};
use crate::platform::{
    Account, Capabilities, Finding, HomeTrial, InboundMessage, ListenContext, OutboundMessage,
    Platform, PlatformError, PossibleHome, ReplyHandle, Server,
};

/// A call that takes longer fails as transient. The wait for the limits does not count. Calls with files have no such
/// limit, because the adapter watches their progress.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most threads that are remembered as unused.
const MOST_THREADS: usize = 1000;

/// A platform whose calls keep to the limits that the adapter declares.
pub struct RateLimited {
    adapter: Arc<dyn Platform>,
    rates: Rates,
    /// Whether opening a thread counts as a message. The vendor's refusals show it.
    threads_count: AtomicBool,
    limiter: Arc<RateLimiter>,
    metrics: Arc<Metrics>,
    threads: Arc<Mutex<Threads>>,
}

/// A chat and a thread in it.
type ThreadId = (String, String);

/// A thread that this process has opened, and to which it has sent nothing.
struct UnusedThread {
    /// The place that is reserved for the first message.
    reserved: Option<Instant>,
    /// Someone else has written there.
    has_messages: bool,
}

#[derive(Default)]
struct Threads {
    /// Room for threads that are about to be opened, by their key.
    rooms: HashMap<String, Permit>,
    unused: HashMap<ThreadId, UnusedThread>,
    /// How many threads are being opened.
    opening: usize,
    /// Threads in which someone has written while a thread was being opened. A person can be faster than the vendor's
    /// answer to the call.
    used_early: HashSet<ThreadId>,
    /// When the last thread was opened that did not count.
    last_uncounted: Option<Instant>,
}

/// A thread that is being opened.
struct Opening {
    threads: Arc<Mutex<Threads>>,
}

impl Opening {
    fn begin(threads: &Arc<Mutex<Threads>>) -> Opening {
        locked(threads).opening += 1;
        let threads = threads.clone();
        Opening { threads }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        let mut threads = locked(&self.threads);
        threads.opening -= 1;
        if threads.opening == 0 {
            threads.used_early.clear();
        }
    }
}

impl RateLimited {
    pub fn new(adapter: Arc<dyn Platform>, metrics: Arc<Metrics>) -> RateLimited {
        let rates = test_rates::apply(adapter.rates());
        RateLimited {
            limiter: Arc::new(RateLimiter::new(rates.overall)),
            threads_count: AtomicBool::new(rates.counted.open_thread),
            rates,
            adapter,
            metrics,
            threads: Arc::default(),
        }
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        locked(&self.threads)
    }

    fn needs<'a>(&self, to: &'a Source, counted: bool, priority: Priority) -> CallNeeds<'a> {
        CallNeeds {
            chat: to.chat_id.as_deref().unwrap_or_default(),
            limit: self.rates.of_chat(to.chat_type),
            counted,
            reserves_reply: false,
            reservation: None,
            priority,
        }
    }

    async fn permit(&self, needs: CallNeeds<'_>) -> Result<Permit, PlatformError> {
        let name = self.adapter.name();
        let permit = self.limiter.acquire(needs).await;
        let permit = permit.map_err(|no_room| PlatformError::Transient {
            reason: format!("the rate limits of {name} leave no room for it now"),
            retry_after: Some(no_room.retry_after),
            unsure: false,
        })?;
        self.metrics.waited(name, WaitReason::Pace, permit.waited());
        Ok(permit)
    }

    async fn permit_for_thread(&self, home: &HomeChannel) -> Result<Permit, PlatformError> {
        let to = self.home_chat(home);
        let counted = self.threads_count.load(Ordering::Relaxed);
        let needs = self.needs(&to, counted, Priority::HandoffThread);
        self.permit(CallNeeds {
            reserves_reply: true,
            ..needs
        })
        .await
    }

    /// The home as a chat, before anything was opened there.
    fn home_chat(&self, home: &HomeChannel) -> Source {
        let unopened = ThreadOutcome::chat("not opened");
        self.adapter.destination(home, &unopened)
    }

    /// Ends the call. A refusal that names a time to wait holds for all callers.
    fn ended<T>(
        &self,
        permit: Permit,
        outcome: Result<T, PlatformError>,
    ) -> Result<T, PlatformError> {
        match retry_after(&outcome) {
            Some(pause) => {
                // Threads that do not count may be what filled the limit.
                let by_threads = self.has_uncounted_threads();
                if permit.refused(pause, self.rates.hold, !by_threads) && by_threads {
                    self.count_threads();
                }
            }
            None => drop(permit),
        }
        outcome
    }

    /// Whether a thread was opened in the last window that did not count.
    fn has_uncounted_threads(&self) -> bool {
        let Some(limit) = self.rates.group else {
            return false;
        };
        let last = self.threads().last_uncounted;
        last.is_some_and(|at| at.elapsed() < limit.window)
    }

    /// The vendor has refused a call that the limits had room for, so it counts new threads.
    fn count_threads(&self) {
        if !self.threads_count.swap(true, Ordering::Relaxed) {
            let platform = self.adapter.name();
            tracing::info!(platform, "platform counts new threads as messages");
        }
    }

    /// The place that is reserved for the first message to a thread.
    fn reservation(&self, to: &Source) -> Option<Instant> {
        self.threads().unused.get(&thread_of(to)?)?.reserved
    }

    fn is_used(&self, to: &Source) {
        if let Some(thread) = thread_of(to) {
            self.threads().unused.remove(&thread);
        }
    }
}

/// The time to wait that a refusal names.
fn retry_after<T>(outcome: &Result<T, PlatformError>) -> Option<Duration> {
    match outcome {
        Err(PlatformError::Transient { retry_after, .. }) => *retry_after,
        _ => None,
    }
}

fn locked(threads: &Mutex<Threads>) -> MutexGuard<'_, Threads> {
    threads
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn thread_of(to: &Source) -> Option<ThreadId> {
    Some((to.chat_id.clone()?, to.thread_id.clone()?))
}

/// The outcome of a call that may get no answer.
async fn within_patience<T>(
    call: impl Future<Output = Result<T, PlatformError>>,
) -> Result<T, PlatformError> {
    let outcome = tokio::time::timeout(PATIENCE, call).await;
    outcome.unwrap_or_else(|_| {
        Err(PlatformError::Transient {
            reason: format!("no answer within {} s", PATIENCE.as_secs()),
            retry_after: None,
            unsure: true,
        })
    })
}

#[async_trait]
impl Platform for RateLimited {
    fn name(&self) -> &'static str {
        self.adapter.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.adapter.capabilities()
    }

    fn rates(&self) -> Rates {
        self.rates
    }

    async fn connect(&self) -> Result<(), PlatformError> {
        self.adapter.connect().await
    }

    async fn identify(&self) -> Result<Option<Account>, PlatformError> {
        self.adapter.identify().await
    }

    async fn diagnose(&self, home: Option<&HomeChannel>) -> Vec<Finding> {
        self.adapter.diagnose(home).await
    }

    async fn webhook(&self) -> Result<Option<String>, PlatformError> {
        self.adapter.webhook().await
    }

    async fn remove_webhook(&self) -> Result<(), PlatformError> {
        self.adapter.remove_webhook().await
    }

    async fn obstacles(&self) -> Vec<Finding> {
        self.adapter.obstacles().await
    }

    async fn invitation(&self) -> Result<Option<String>, PlatformError> {
        self.adapter.invitation().await
    }

    async fn servers(&self) -> Result<Option<Vec<Server>>, PlatformError> {
        self.adapter.servers().await
    }

    async fn homes(
        &self,
        server: &str,
        owner: Option<&Account>,
    ) -> Result<Vec<PossibleHome>, PlatformError> {
        self.adapter.homes(server, owner).await
    }

    async fn owner(&self) -> Result<Option<Account>, PlatformError> {
        self.adapter.owner().await
    }

    async fn person(&self, id: &str) -> Result<Account, PlatformError> {
        self.adapter.person(id).await
    }

    fn own_id_hint(&self) -> &'static str {
        self.adapter.own_id_hint()
    }

    async fn try_home(&self, home: &HomeChannel) -> Result<HomeTrial, PlatformError> {
        self.adapter.try_home(home).await
    }

    async fn listen(&self, context: &ListenContext) -> PlatformError {
        self.adapter.listen(context).await
    }

    async fn reserve_thread(&self, home: &HomeChannel, open_key: &str) -> ThreadRoom {
        // A thread waits until there is room, so there is no error.
        let Ok(permit) = self.permit_for_thread(home).await else {
            return ThreadRoom::default();
        };
        let (threads, key) = (self.threads.clone(), open_key.to_owned());
        locked(&threads).rooms.insert(key.clone(), permit);
        ThreadRoom {
            give_back: Some(Box::new(move || {
                let room = locked(&threads).rooms.remove(&key);
                if let Some(permit) = room {
                    permit.give_back();
                }
            })),
        }
    }

    async fn open_thread(
        &self,
        home: &HomeChannel,
        title: &str,
        open_key: &str,
    ) -> Result<ThreadOutcome, PlatformError> {
        let room = self.threads().rooms.remove(open_key);
        let permit = match room {
            Some(permit) => permit,
            None => self.permit_for_thread(home).await?,
        };
        let _opening = Opening::begin(&self.threads);
        let opened = self.adapter.open_thread(home, title, open_key);
        match within_patience(opened).await {
            Ok(opened @ ThreadOutcome::Thread { .. }) => {
                let reserved = permit.into_reservation();
                let to = self.adapter.destination(home, &opened);
                if let Some(thread) = thread_of(&to) {
                    let mut threads = self.threads();
                    if threads.unused.len() >= MOST_THREADS {
                        threads.unused.clear();
                    }
                    let unused = UnusedThread {
                        reserved,
                        has_messages: threads.used_early.contains(&thread),
                    };
                    threads.unused.insert(thread, unused);
                    if !self.threads_count.load(Ordering::Relaxed) {
                        threads.last_uncounted = Some(Instant::now());
                    }
                }
                Ok(opened)
            }
            Ok(instead @ ThreadOutcome::Chat { .. }) => {
                permit.give_back();
                Ok(instead)
            }
            failed => {
                if retry_after(&failed).is_some() {
                    self.count_threads();
                }
                self.ended(permit, failed)
            }
        }
    }

    async fn open_thread_on(
        &self,
        message: &InboundMessage,
    ) -> Result<Option<Source>, PlatformError> {
        let counted = self.threads_count.load(Ordering::Relaxed);
        let needs = self.needs(&message.source, counted, Priority::Reply);
        let permit = self.permit(needs).await?;
        let opened = within_patience(self.adapter.open_thread_on(message)).await;
        self.ended(permit, opened)
    }

    /// Deletes a thread only if this process has opened it and no one has written there.
    async fn delete_thread(&self, destination: &Source) -> Result<(), PlatformError> {
        let unused =
            thread_of(destination).and_then(|thread| self.threads().unused.remove(&thread));
        let Some(UnusedThread {
            reserved,
            has_messages: false,
        }) = unused
        else {
            return Err(PlatformError::Permanent(
                "the thread is in use, or an earlier process has opened it".into(),
            ));
        };
        let chat = destination.chat_id.as_deref().unwrap_or_default();
        if let Some(reserved) = reserved {
            self.limiter.release(chat, reserved);
        }
        let permit = self
            .permit(self.needs(destination, false, Priority::HandoffReply))
            .await?;
        let deleted = within_patience(self.adapter.delete_thread(destination)).await;
        self.ended(permit, deleted)
    }

    fn thread_is_used(&self, thread: &Source) {
        if let Some(id) = thread_of(thread) {
            let mut threads = self.threads();
            if let Some(unused) = threads.unused.get_mut(&id) {
                unused.has_messages = true;
            } else if threads.opening > 0 && threads.used_early.len() < MOST_THREADS {
                threads.used_early.insert(id);
            }
        }
        self.adapter.thread_is_used(thread);
    }

    // These are not messages. The vendor may limit them more than messages, so they must not hold their chat.
    async fn thread_left(&self, thread: &Source) -> Result<(), PlatformError> {
        self.adapter.thread_left(thread).await
    }

    async fn thread_resumed(&self, thread: &Source) -> Result<(), PlatformError> {
        self.adapter.thread_resumed(thread).await
    }

    async fn find_home(&self, home: &HomeChannel) -> Result<Source, PlatformError> {
        within_patience(self.adapter.find_home(home)).await
    }

    fn destination(&self, home: &HomeChannel, opened: &ThreadOutcome) -> Source {
        self.adapter.destination(home, opened)
    }

    fn private_chat(&self, user_id: &str) -> Option<Source> {
        self.adapter.private_chat(user_id)
    }

    fn parent(&self, thread: &Source) -> Option<Source> {
        self.adapter.parent(thread)
    }

    fn split(&self, markdown: &str) -> Vec<String> {
        self.adapter.split(markdown)
    }

    async fn send(
        &self,
        to: &Source,
        what: OutboundMessage<'_>,
        send_key: &str,
    ) -> Result<String, PlatformError> {
        let needs = CallNeeds {
            reservation: self.reservation(to),
            ..self.needs(to, true, what.priority)
        };
        let permit = self.permit(needs).await?;
        let is_underway = |is: bool| {
            if let Some(underway) = what.underway {
                underway.store(is, Ordering::Relaxed);
            }
        };
        self.is_used(to);
        is_underway(true);
        let sending = self.adapter.send(to, what, send_key);
        let sent = match what.file {
            Some(_) => sending.await,
            None => within_patience(sending).await,
        };
        is_underway(false);
        self.ended(permit, sent)
    }

    fn edit_interval(&self, to: &Source) -> Option<Duration> {
        self.adapter.edit_interval(to)
    }

    async fn edit(
        &self,
        to: &Source,
        message_id: &str,
        what: OutboundMessage<'_>,
    ) -> Result<(), PlatformError> {
        let needs = self.needs(to, self.rates.counted.edit, what.priority);
        let permit = self.permit(needs).await?;
        let edited = within_patience(self.adapter.edit(to, message_id, what)).await;
        self.ended(permit, edited)
    }

    fn typing_interval(&self) -> Option<Duration> {
        self.adapter.typing_interval()
    }

    async fn typing(&self, to: &Source) -> Result<(), PlatformError> {
        let needs = self.needs(to, self.rates.counted.typing, Priority::Typing);
        let permit = self.permit(needs).await?;
        let shown = within_patience(self.adapter.typing(to)).await;
        self.ended(permit, shown)
    }

    async fn acknowledge(&self, source: &Source, message_id: &str) -> Result<(), PlatformError> {
        let counted = self.rates.counted.acknowledge;
        let needs = self.needs(source, counted, Priority::Acknowledgement);
        let permit = self.permit(needs).await?;
        let shown = within_patience(self.adapter.acknowledge(source, message_id)).await;
        self.ended(permit, shown)
    }

    fn precedes(&self, message_id: &str, other: &str) -> Option<bool> {
        self.adapter.precedes(message_id, other)
    }

    /// A person waits for it, and vendors do not count it.
    async fn confirm(&self, handle: &ReplyHandle, said: &str) -> Result<(), PlatformError> {
        within_patience(self.adapter.confirm(handle, said)).await
    }

    async fn fetch(&self, file: &RemoteFile, to: &Path, largest: u64) -> Result<(), PlatformError> {
        self.adapter.fetch(file, to, largest).await
    }
}
