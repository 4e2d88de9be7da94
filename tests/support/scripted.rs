//! A platform and an agent that do as a test tells them, inside a daemon that is otherwise the real one. For what the
//! embedded ones never do: take long to connect, hang, refuse, fail.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use async_trait::async_trait;
use hermesd::agent::{Agent, AgentError, Agents, Prompt, Sink};
use hermesd::client::Client;
use hermesd::config::{self, Config, Overrides};
use hermesd::control::{PeerPolicy, listener};
use hermesd::daemon::{Daemon, DaemonError, Stopped};
use hermesd::domain::Reply;
use hermesd::domain::TranscriptWriter;
use hermesd::domain::{ChatType, Source};
use hermesd::domain::{HomeChannel, ThreadOutcome};
use hermesd::events::Bus;
use hermesd::platform::local::Local;
use hermesd::platform::{
    Capabilities, Dedup, Inbox, ListenContext, OutboundMessage, Platform, PlatformError,
    ReplyHandle,
};
use hermesd::protocol::{Call, HandoffId, HandoffRequest, HandoffView};
use hermesd::shutdown::Shutdown;
use hermesd::store::Store;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::log::Log;
use super::{Home, eventually};

/// Stands in for telegram. Everything works until told otherwise.
pub struct Scripted {
    /// `connect` waits for a permit here.
    pub connected: Semaphore,
    pub threads: Mutex<VecDeque<PlatformError>>,
    /// `open_thread` waits for a permit here.
    pub opening: Semaphore,
    /// Calls of `open_thread` so far.
    pub opened: AtomicUsize,
    /// Handoffs go to the home chat itself.
    pub threadless: bool,
    /// So many wishes for a thread make it panic.
    pub panics: AtomicUsize,
    pub sends: Mutex<VecDeque<PlatformError>>,
    /// So many sends get no answer.
    pub unanswered: AtomicUsize,
    /// Send key and text of what arrived.
    pub sent: Mutex<Vec<(String, String)>>,
    /// Where each of them arrived.
    pub sent_to: Mutex<Vec<Source>>,
    pub dedup: Dedup,
    /// The chat around every thread, where the test names one.
    pub parent: Option<Source>,
    /// What answered a press of a button, and the text.
    pub acknowledged: Mutex<Vec<(String, String)>>,
    /// Where the daemon accepts events, once it listens.
    pub listening: Mutex<Option<Weak<dyn Inbox>>>,
}

impl Default for Scripted {
    fn default() -> Self {
        Scripted {
            connected: Semaphore::new(1),
            threads: Mutex::default(),
            opening: Semaphore::new(1000),
            opened: AtomicUsize::new(0),
            threadless: false,
            panics: AtomicUsize::new(0),
            sends: Mutex::default(),
            unanswered: AtomicUsize::new(0),
            sent: Mutex::default(),
            sent_to: Mutex::default(),
            dedup: Dedup::Always,
            parent: None,
            acknowledged: Mutex::default(),
            listening: Mutex::default(),
        }
    }
}

impl Scripted {
    /// Connects only when it is given a permit.
    pub fn never_connected() -> Scripted {
        Scripted {
            connected: Semaphore::new(0),
            ..Scripted::default()
        }
    }

    /// Waits until the daemon listens.
    pub async fn inbox(&self) -> Arc<dyn Inbox> {
        eventually("the daemon listens", || async {
            self.listening.lock().unwrap().as_ref()?.upgrade()
        })
        .await
    }
}

#[async_trait]
impl Platform for Scripted {
    fn name(&self) -> &'static str {
        "telegram"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            threads: !self.threadless,
            send_dedup: self.dedup,
            thread_dedup: Dedup::Always,
            buttons: false,
            files: false,
        }
    }

    async fn connect(&self) -> Result<(), PlatformError> {
        self.connected.acquire().await.expect("open").forget();
        Ok(())
    }

    async fn listen(&self, context: &ListenContext) -> PlatformError {
        *self.listening.lock().unwrap() = Some(Arc::downgrade(&context.inbox));
        std::future::pending().await
    }

    async fn confirm(&self, handle: &ReplyHandle, text: &str) -> Result<(), PlatformError> {
        let secret = handle.secret().unwrap_or("expired").to_owned();
        self.acknowledged
            .lock()
            .unwrap()
            .push((secret, text.to_owned()));
        Ok(())
    }

    fn parent(&self, thread: &Source) -> Option<Source> {
        thread.thread_id.as_ref()?;
        let without_thread = Source {
            thread_id: None,
            ..thread.clone()
        };
        Some(self.parent.clone().unwrap_or(without_thread))
    }

    async fn open_thread(
        &self,
        _home: &HomeChannel,
        title: &str,
        open_key: &str,
    ) -> Result<ThreadOutcome, PlatformError> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.opening.acquire().await.expect("open").forget();
        if self.panics.load(Ordering::Relaxed) > 0 {
            self.panics.fetch_sub(1, Ordering::Relaxed);
            panic!("as the test wants it");
        }
        match self.threads.lock().unwrap().pop_front() {
            Some(error) => Err(error),
            None => Ok(ThreadOutcome::Thread {
                id: open_key.replace(':', "-"),
                title: title.to_owned(),
                repeated: false,
                within: None,
            }),
        }
    }

    fn destination(&self, home: &HomeChannel, opened: &ThreadOutcome) -> Source {
        let mut source = Source::new("telegram", ChatType::Dm, &home.chat_id);
        if let ThreadOutcome::Thread { id, .. } = opened {
            source.thread_id = Some(id.clone());
        }
        source
    }

    async fn send(
        &self,
        to: &Source,
        what: OutboundMessage<'_>,
        send_key: &str,
    ) -> Result<String, PlatformError> {
        if self.unanswered.load(Ordering::Relaxed) > 0 {
            self.unanswered.fetch_sub(1, Ordering::Relaxed);
            std::future::pending::<()>().await;
        }
        if let Some(error) = self.sends.lock().unwrap().pop_front() {
            return Err(error);
        }
        self.sent_to.lock().unwrap().push(to.clone());
        let mut sent = self.sent.lock().unwrap();
        sent.push((send_key.to_owned(), what.text.to_owned()));
        Ok(sent.len().to_string())
    }
}

/// What the agent does with the next turn of a session, by its id; others are answered at once.
#[derive(Debug, Clone)]
pub enum Mood {
    Hang,
    /// Says this much, and no more.
    Begin(&'static str),
    /// Answers when there is a permit.
    Wait(Arc<Semaphore>),
    Say(&'static str),
    Fail(&'static str),
    /// Stops by itself, though nobody asked for it.
    GiveUp,
    Panic,
}

#[derive(Default)]
pub struct ScriptedAgent {
    /// The rows of its turns are its own to write, which the test does in its place.
    pub writes: AtomicBool,
    pub moods: Mutex<BTreeMap<String, Mood>>,
    pub asked: Mutex<Vec<String>>,
}

#[async_trait]
impl Agent for ScriptedAgent {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn transcript_writer(&self, _source: &str) -> TranscriptWriter {
        match self.writes.load(Ordering::Relaxed) {
            true => TranscriptWriter::Agent,
            false => TranscriptWriter::Daemon,
        }
    }

    async fn turn(
        &self,
        prompt: Prompt<'_>,
        sink: &dyn Sink,
        _cancel: &CancellationToken,
    ) -> Result<Reply, AgentError> {
        let id = prompt.session.id.clone();
        self.asked.lock().unwrap().push(id.clone());
        let mood = self.moods.lock().unwrap().get(&id).cloned();
        match mood {
            Some(Mood::Hang) => std::future::pending().await,
            Some(Mood::Begin(text)) => {
                sink.push(text);
                std::future::pending().await
            }
            Some(Mood::Fail(reason)) => Err(AgentError::Failed(reason.into())),
            Some(Mood::GiveUp) => Err(AgentError::Cancelled),
            Some(Mood::Panic) => panic!("as the test wants it"),
            Some(Mood::Say(text)) => Ok(text.to_owned().into()),
            Some(Mood::Wait(permits)) => {
                permits.acquire().await.expect("open").forget();
                Ok("at last".to_owned().into())
            }
            None => Ok(format!("I have {} messages.", prompt.transcript.messages.len()).into()),
        }
    }
}

/// The configuration of such a daemon: telegram has a token and a home.
pub fn configured(home: &Home, settings: &[(&str, &str)]) -> Config {
    let mut environment: BTreeMap<String, String> = [
        ("HOME", "/nonexistent"),
        ("TELEGRAM_BOT_TOKEN", "1:xyz"),
        ("TELEGRAM_HOME_CHANNEL", "77"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect();
    environment.extend(
        settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    );
    let overrides = Overrides {
        home: Some(home.path().to_owned()),
        ..Overrides::default()
    };
    config::load_with(hermesd::platform::schema(), &overrides, &environment)
        .expect("a configuration")
}

/// A daemon in this process, with telegram and the agent scripted.
pub struct InProcess {
    pub client: Client,
    pub platform: Arc<Scripted>,
    pub agent: Arc<ScriptedAgent>,
    pub log: Log,
    /// The daemon's own.
    pub store: Store,
    stop: Shutdown,
    serving: tokio::task::JoinHandle<Result<Stopped, DaemonError>>,
}

impl InProcess {
    /// What the agent does with a session's turns from now on.
    pub fn set_mood(&self, session: &str, mood: Mood) {
        self.agent
            .moods
            .lock()
            .unwrap()
            .insert(session.to_owned(), mood);
    }

    /// Asks for a handoff.
    pub async fn ask(&self, platform: &str, session: &str) -> HandoffView {
        let wish = HandoffRequest {
            platform: platform.into(),
            session: Some(session.into()),
            ..HandoffRequest::default()
        };
        self.client
            .call(Call::HandoffRequest(wish))
            .await
            .expect("a request")
    }

    /// Waits for a handoff's end.
    pub async fn ended(&self, id: i64) -> HandoffView {
        self.client
            .call(Call::HandoffWait(HandoffId { id }))
            .await
            .expect("an end")
    }

    pub async fn cancel(&self, id: i64) {
        let cancel = Call::HandoffCancel(HandoffId { id });
        let _: serde_json::Value = self.client.call(cancel).await.expect("a cancellation");
    }

    pub async fn hand_off(&self, platform: &str, session: &str) -> HandoffView {
        let asked = self.ask(platform, session).await;
        self.ended(asked.id).await
    }

    pub async fn start(home: &Home, settings: &[(&str, &str)]) -> InProcess {
        Self::start_with(home, settings, Scripted::default()).await
    }

    pub async fn start_with(
        home: &Home,
        settings: &[(&str, &str)],
        platform: Scripted,
    ) -> InProcess {
        let (platform, agent) = (Arc::new(platform), Arc::new(ScriptedAgent::default()));
        let log = Log::start();
        let config = configured(home, settings);
        let (store, bus) = (home.store(), Bus::default());
        let adapters: Vec<Arc<dyn Platform>> = vec![
            Arc::new(Local::new(store.clone(), bus.clone())),
            platform.clone(),
        ];
        let socket = config.control.socket.clone();
        let listener = listener::bind(&socket, None, home.path()).expect("a socket");
        let agents = Agents::only(agent.clone());
        let daemon = Daemon::with(config, store.clone(), bus, adapters, agents);
        let stop = Shutdown::default();
        let doorman = PeerPolicy::new(None).expect("a doorman");
        let serving = tokio::spawn(daemon.serve(listener, doorman, stop.clone()));
        let client = Client::connect(&socket).await.expect("a connection");
        InProcess {
            client,
            platform,
            agent,
            log,
            store,
            stop,
            serving,
        }
    }

    /// Waits until the agent has been asked so often.
    pub async fn asked(&self, times: usize) {
        eventually("the agent is asked", || async {
            (self.agent.asked.lock().unwrap().len() >= times).then_some(())
        })
        .await;
    }

    /// As SIGTERM does: work in progress is finished first.
    pub async fn stop(self) {
        self.begin_stop();
        self.ended_cleanly().await;
    }

    /// As a second SIGTERM does: work in progress is cut off.
    pub async fn cut_off(self) {
        self.stop.cut_off();
        self.ended_cleanly().await;
    }

    pub fn begin_stop(&self) {
        self.stop.begin();
    }

    pub async fn ended_cleanly(self) {
        drop((self.client, self.store));
        self.serving.await.expect("an end").expect("a clean end");
    }
}
