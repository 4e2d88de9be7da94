//! `hermesd diagnose`: diagnoses platforms and agents for hermesctl if no daemon answers. hermesctl itself has neither
//! adapters nor agents. [`DiagnoseRequest`] lists the requests.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt, Lines};
use tokio::sync::mpsc;

use super::{adapters, setup_views};
use crate::agent::Agents;
use crate::config::{self, Config, ConfigError, Overrides};
use crate::control::agent_views;
use crate::domain::{HomeChannel, Source};
use crate::events::Bus;
use crate::platform::{
    Account, InboundEvent, InboundMessage, Inbox, ListenContext, Platform, PlatformError, Platforms,
};
use crate::private_files;
use crate::protocol::{self, DiagnoseAnswer, DiagnoseRequest, PersonChoice};
use crate::store::{OpenMode, Store, StoreError};
use crate::views;

/// Answers requests until the input ends.
pub async fn diagnose(
    overrides: Overrides,
    input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    // A request may hold a token. Other programs of this user must not read it in our memory.
    let _ = nix::sys::prctl::set_dumpable(false);
    let mut diagnosis = Diagnosis {
        overrides,
        opened: None,
        input: input.lines(),
        output,
    };
    let mut next = diagnosis.input.next_line().await?;
    while let Some(line) = next {
        next = diagnosis.perform(&line).await?;
    }
    Ok(())
}

struct Diagnosis<I, O> {
    overrides: Overrides,
    opened: Option<Opened>,
    input: Lines<I>,
    output: O,
}

struct Opened {
    adapter: Arc<dyn Platform>,
    /// The chat of each /sethome.
    heard: Vec<Source>,
}

impl<I: AsyncBufRead + Unpin, O: AsyncWrite + Unpin> Diagnosis<I, O> {
    /// Performs one request and returns the line of the next one.
    async fn perform(&mut self, line: &str) -> io::Result<Option<String>> {
        let outcome = match serde_json::from_str(line) {
            Ok(DiagnoseRequest::Listen) => match self.listen().await {
                Ok(next) => return next,
                Err(failure) => Err(failure),
            },
            Ok(DiagnoseRequest::Platforms) => self.platforms().await,
            Ok(DiagnoseRequest::Agents) => self.agents(),
            Ok(DiagnoseRequest::Open { platform, settings }) => self.open(platform, settings).await,
            Ok(DiagnoseRequest::Webhook) => self.webhook().await,
            Ok(DiagnoseRequest::RemoveWebhook) => self.remove_webhook().await,
            Ok(DiagnoseRequest::Reply { heard, text }) => self.reply(heard, &text).await,
            Ok(DiagnoseRequest::Obstacles) => self.obstacles().await,
            Ok(DiagnoseRequest::Invitation) => self.invitation().await,
            Ok(DiagnoseRequest::Servers) => self.servers().await,
            Ok(DiagnoseRequest::Homes { server, owner }) => self.homes(&server, owner).await,
            Ok(DiagnoseRequest::Owner) => self.owner().await,
            Ok(DiagnoseRequest::Person { id }) => self.person(&id).await,
            Ok(DiagnoseRequest::TryHome { chat, name, owner }) => {
                let home = HomeChannel {
                    chat_id: chat,
                    name,
                    thread_id: None,
                    owner,
                };
                self.try_home(&home).await
            }
            // The line may hold a token, so the answer does not repeat it.
            Err(_) => Err(Failure::new("the line is not a valid request")),
        };
        let answer = outcome.unwrap_or_else(|failure| DiagnoseAnswer::Failed {
            message: failure.message,
            kind: failure.kind.map(str::to_owned),
        });
        self.write(&answer).await?;
        self.input.next_line().await
    }

    async fn platforms(&mut self) -> Result<DiagnoseAnswer, Failure> {
        let (config, store) = self.configured(OpenMode::Existing)?;
        let homes = Platforms::configured(&config, &store);
        for adapter in adapters(&config, &store, &Bus::default()) {
            let name = adapter.name();
            if config.platform(name).is_none_or(|p| !p.enabled) {
                continue;
            }
            let findings = adapter.diagnose(homes.home(name).as_ref()).await;
            let answer = found(name, None, findings);
            self.write(&answer).await?;
        }
        Ok(DiagnoseAnswer::Done)
    }

    fn agents(&self) -> Result<DiagnoseAnswer, Failure> {
        let (config, store) = self.configured(OpenMode::Existing)?;
        let agents = agent_views(&Agents::configured(&config, &store));
        Ok(DiagnoseAnswer::Agents { agents })
    }

    async fn open(
        &mut self,
        platform: String,
        settings: Vec<(String, String)>,
    ) -> Result<DiagnoseAnswer, Failure> {
        for (key, value) in settings {
            let setting = crate::platform::schema().find(&key);
            let setting =
                setting.ok_or_else(|| Failure::new(format!("there is no setting {key}")))?;
            self.overrides.values.push((&setting.key, value));
        }
        let (config, store) = self.configured(OpenMode::Create)?;
        let mut adapters = adapters(&config, &store, &Bus::default()).into_iter();
        let adapter = adapters.find(|adapter| adapter.name() == platform);
        let adapter = adapter.ok_or_else(|| {
            Failure::new(format!(
                "hermesd cannot connect to {platform} as it is configured: see `hermesctl setup {platform}`"
            ))
        })?;
        let findings = adapter.diagnose(None).await;
        // The findings say why there is none.
        let account = adapter.identify().await.ok().flatten();
        let account = account.map(|account| account.name);
        self.opened = Some(Opened {
            adapter,
            heard: Vec::new(),
        });
        Ok(found(&platform, account, findings))
    }

    async fn webhook(&self) -> Result<DiagnoseAnswer, Failure> {
        let host = self.opened()?.adapter.webhook().await?;
        Ok(DiagnoseAnswer::Webhook { host })
    }

    async fn remove_webhook(&self) -> Result<DiagnoseAnswer, Failure> {
        self.opened()?.adapter.remove_webhook().await?;
        Ok(DiagnoseAnswer::Done)
    }

    async fn obstacles(&self) -> Result<DiagnoseAnswer, Failure> {
        let findings = self.opened()?.adapter.obstacles().await;
        let findings = findings.into_iter().map(views::finding).collect();
        Ok(DiagnoseAnswer::Findings { findings })
    }

    async fn invitation(&self) -> Result<DiagnoseAnswer, Failure> {
        let link = self.opened()?.adapter.invitation().await?;
        Ok(DiagnoseAnswer::Invitation { link })
    }

    async fn servers(&self) -> Result<DiagnoseAnswer, Failure> {
        let servers = self.opened()?.adapter.servers().await?;
        Ok(setup_views::servers(servers))
    }

    async fn homes(
        &self,
        server: &str,
        owner: Option<PersonChoice>,
    ) -> Result<DiagnoseAnswer, Failure> {
        let owner = owner.map(|PersonChoice { id, name }| Account { id, name });
        let adapter = &self.opened()?.adapter;
        let homes = adapter.homes(server, owner.as_ref()).await?;
        Ok(setup_views::homes(homes))
    }

    async fn owner(&self) -> Result<DiagnoseAnswer, Failure> {
        let adapter = &self.opened()?.adapter;
        let owner = adapter.owner().await?;
        Ok(setup_views::owner(adapter.as_ref(), owner))
    }

    async fn person(&self, id: &str) -> Result<DiagnoseAnswer, Failure> {
        let adapter = &self.opened()?.adapter;
        let person = adapter.person(id).await?;
        Ok(setup_views::owner(adapter.as_ref(), Some(person)))
    }

    async fn try_home(&self, home: &HomeChannel) -> Result<DiagnoseAnswer, Failure> {
        let tried = self.opened()?.adapter.try_home(home).await;
        let trial = tried.map_err(|error| Failure {
            kind: (!matches!(error, PlatformError::Transient { .. })).then_some("home"),
            ..Failure::new(error.to_string())
        })?;
        Ok(setup_views::home_tried(trial))
    }

    async fn reply(&self, heard: usize, text: &str) -> Result<DiagnoseAnswer, Failure> {
        let opened = self.opened()?;
        let source = opened.heard.get(heard);
        let source = source
            .ok_or_else(|| Failure::new(format!("there is no message with number {heard}")))?;
        opened.adapter.send(source, text.into(), "setup").await?;
        Ok(DiagnoseAnswer::Done)
    }

    /// Listens until the next request arrives, and returns its line. If the connection ends, the answer is `failed`.
    async fn listen(&mut self) -> Result<io::Result<Option<String>>, Failure> {
        let adapter = self.opened()?.adapter.clone();
        adapter.connect().await?;
        let (sender, mut messages) = mpsc::channel(16);
        let context = ListenContext {
            inbox: Arc::new(SetHomeInbox(sender)),
            alive: Box::new(|| {}),
        };
        let listening = adapter.listen(&context);
        tokio::pin!(listening);
        loop {
            tokio::select! {
                line = self.input.next_line() => return Ok(line),
                Some(message) = messages.recv() => {
                    let answer = self.heard(message.source)?;
                    self.write(&answer).await?;
                }
                error = &mut listening => return Err(error.into()),
            }
        }
    }

    fn heard(&mut self, source: Source) -> Result<DiagnoseAnswer, Failure> {
        let opened = self.opened.as_mut().ok_or_else(Failure::not_open)?;
        let answer = DiagnoseAnswer::Heard {
            heard: opened.heard.len(),
            chat: source.chat_id.clone().unwrap_or_default(),
            chat_name: source.chat_name.clone(),
            user: source.user_id.clone(),
            user_name: source.user_name.clone(),
        };
        opened.heard.push(source);
        Ok(answer)
    }

    fn configured(&self, mode: OpenMode) -> Result<(Config, Store), Failure> {
        let config = config::load(crate::platform::schema(), &self.overrides)?;
        if matches!(mode, OpenMode::Create) {
            private_files::directory(&config.home)
                .map_err(|e| Failure::new(format!("{}: {e}", config.home.display())))?;
        }
        let store = Store::open(&config.home, mode, &config.store)?;
        Ok((config, store))
    }

    fn opened(&self) -> Result<&Opened, Failure> {
        self.opened.as_ref().ok_or_else(Failure::not_open)
    }

    async fn write(&mut self, answer: &DiagnoseAnswer) -> io::Result<()> {
        self.output.write_all(&protocol::line(answer)).await?;
        self.output.flush().await
    }
}

fn found(
    platform: &str,
    account: Option<String>,
    findings: Vec<crate::platform::Finding>,
) -> DiagnoseAnswer {
    DiagnoseAnswer::Platform {
        platform: platform.to_owned(),
        account,
        findings: findings.into_iter().map(views::finding).collect(),
    }
}

/// Forwards each /sethome and drops the rest.
struct SetHomeInbox(mpsc::Sender<InboundMessage>);

#[async_trait]
impl Inbox for SetHomeInbox {
    async fn accept(&self, event: InboundEvent) -> Result<(), StoreError> {
        if let InboundEvent::Message(message) = event
            && !message.facts.from_bot
            && message
                .own_words()
                .and_then(|words| words.split_whitespace().next())
                == Some("/sethome")
        {
            let _ = self.0.send(message).await;
        }
        Ok(())
    }
}

/// Why a request failed.
struct Failure {
    message: String,
    kind: Option<&'static str>,
}

impl Failure {
    fn new(message: impl Into<String>) -> Failure {
        Failure {
            message: message.into(),
            kind: None,
        }
    }

    fn not_open() -> Failure {
        Failure::new("no platform is open")
    }
}

impl From<PlatformError> for Failure {
    fn from(error: PlatformError) -> Failure {
        Failure::new(error.to_string())
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        Failure {
            kind: Some("config"),
            ..Failure::new(error.to_string())
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure {
            kind: (!error.is_transient()).then_some("database"),
            ..Failure::new(error.to_string())
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::new(error.to_string())
    }
}
