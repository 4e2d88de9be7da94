//! The adapter of Slack. It uses the Web API and Socket Mode.

mod address;
mod api;
mod backlog;
mod config;
mod descriptor;
mod diagnose;
mod failure;
mod files;
mod format;
mod interactions;
mod listen;
mod manifest;
mod marks;
mod parse;
mod places;
mod scopes;
mod send;
mod setup;
mod socket;
mod threads;
mod words;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use reqwest::Url;
use tokio::sync::OnceCell;

use super::sign_in::sign_in;
use super::{
    Account, AdapterContext, BuildError, Capabilities, CountedCalls, Dedup, Finding, HoldScope,
    Limit, ListenContext, OutboundMessage, Platform, PlatformError, PossibleHome, Rates,
    ReplyHandle, Server,
};
use crate::config::PlatformConfig;
use crate::domain::{HomeChannel, RemoteFile, Source, ThreadOutcome};
use address::is_person;
use api::Api;
use config::{SlackConfig, Tokens};
pub use descriptor::DESCRIPTOR;
use interactions::Addresses;
use parse::Me;
use places::Places;
use send::{PreviewBudget, Switches};

pub const NAME: &str = "slack";

/// The native command of the app, without its slash.
const COMMAND: &str = "hermes";
/// The file in which Hermes keeps the tokens of further workspaces.
const MORE_TOKENS: &str = "slack_tokens.json";

pub struct Slack {
    api: Api,
    rules: SlackConfig,
    context: AdapterContext,
    me: Mutex<Me>,
    /// The scopes of the bot's token.
    scopes: Mutex<Vec<String>>,
    /// The address of the next connection, from the check of the app's token.
    next_url: Mutex<Option<String>>,
    places: Places,
    addresses: Addresses,
    switches: Switches,
    previews: PreviewBudget,
    installation: OnceCell<String>,
    /// Other workspaces whose events were left out, each with one warning.
    other_workspaces: Mutex<HashSet<String>>,
}

pub fn build(
    settings: &PlatformConfig,
    context: AdapterContext,
) -> Result<Arc<dyn Platform>, BuildError> {
    let tokens = Tokens::read(settings)?;
    if context.has_home_file(MORE_TOKENS) {
        tracing::warn!(
            platform = NAME,
            "{MORE_TOKENS} names more workspaces: hermesd uses only the one of platforms.slack.token"
        );
    }
    let rules = SlackConfig::read(settings);
    let api = Api::new(context.http_client()?, tokens, rules.base_url.as_deref())?;
    Ok(Arc::new(Slack {
        api,
        rules,
        context,
        me: Mutex::default(),
        scopes: Mutex::default(),
        next_url: Mutex::default(),
        places: Places::default(),
        addresses: Addresses::default(),
        switches: Switches::default(),
        previews: PreviewBudget::default(),
        installation: OnceCell::new(),
        other_workspaces: Mutex::default(),
    }))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Slack {
    fn me(&self) -> Me {
        locked(&self.me).clone()
    }

    fn scopes(&self) -> Vec<String> {
        locked(&self.scopes).clone()
    }

    /// Whether the token has a scope. True if Slack has not said its scopes.
    fn has_scope(&self, scope: &str) -> bool {
        let scopes = locked(&self.scopes);
        scopes.is_empty() || scopes.iter().any(|granted| granted == scope)
    }

    /// Checks the bot's token, and remembers whose it is.
    async fn sign_in_bot(&self) -> Result<Me, PlatformError> {
        let (answer, scopes) = self.api.auth_test().await?;
        let text = |field: &str| answer[field].as_str().unwrap_or_default().to_owned();
        let me = Me {
            user: text("user_id"),
            bot: text("bot_id"),
            name: text("user"),
            workspace: text("team_id"),
        };
        *locked(&self.me) = me.clone();
        *locked(&self.scopes) = scopes;
        Ok(me)
    }

    /// The address of the next connection.
    async fn connection_url(&self) -> Result<Url, PlatformError> {
        let checked = locked(&self.next_url).take();
        let url = match checked {
            Some(url) => url,
            None => self.api.open_connection().await?,
        };
        self.api.allowed_socket(&url).ok_or_else(|| {
            PlatformError::Permanent(
                "the server of platforms.slack.base_url names no address of its own for Socket Mode"
                    .into(),
            )
        })
    }

    fn warn_of_workspace(&self, workspace: &str) {
        if locked(&self.other_workspaces).insert(workspace.to_owned()) {
            tracing::warn!(
                platform = NAME,
                workspace,
                "the app is in another workspace too: hermesd serves only the one of platforms.slack.token"
            );
        }
    }
}

#[async_trait]
impl Platform for Slack {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            threads: true,
            // Metadata marks each message.
            send_dedup: Dedup::Search,
            thread_dedup: Dedup::Always,
            buttons: true,
            files: true,
        }
    }

    /// Slack documents one message a second in each channel, with short bursts: the message that begins a thread and the
    /// first reply go out together.
    fn rates(&self) -> Rates {
        let two = Some(Limit::new(2, Duration::from_secs(2)));
        Rates {
            overall: Some(Limit::new(10, Duration::from_secs(1))),
            private_chat: two,
            group: two,
            counted: CountedCalls {
                open_thread: true,
                ..CountedCalls::default()
            },
            hold: HoldScope::Chat,
        }
    }

    async fn connect(&self) -> Result<(), PlatformError> {
        let me = sign_in(NAME, || self.sign_in_bot()).await?;
        tracing::debug!(
            bot = me.name,
            workspace = me.workspace,
            "bot token accepted"
        );
        let open = || async { Ok(self.api.open_connection().await?) };
        let url = sign_in(NAME, open).await?;
        *locked(&self.next_url) = Some(url);
        // The key of its messages needs the id of the private chat.
        if let Some(person) = &self.rules.home_person {
            match self.private_channel(person).await {
                Ok(_) => {}
                Err(failure) if failure.is_final() => {
                    let reason = PlatformError::from(failure);
                    tracing::warn!(%reason, person, platform = NAME, "no private chat with the home's person");
                }
                Err(failure) => return Err(failure.into()),
            }
        }
        Ok(())
    }

    async fn identify(&self) -> Result<Option<Account>, PlatformError> {
        let me = self.sign_in_bot().await?;
        Ok(Some(Account {
            id: me.user,
            name: format!("@{}", me.name),
        }))
    }

    async fn diagnose(&self, home: Option<&HomeChannel>) -> Vec<Finding> {
        self.look_around(home).await
    }

    async fn obstacles(&self) -> Vec<Finding> {
        self.missing_scopes().await
    }

    async fn servers(&self) -> Result<Option<Vec<Server>>, PlatformError> {
        Ok(Some(vec![self.workspace().await?]))
    }

    async fn homes(
        &self,
        _server: &str,
        owner: Option<&Account>,
    ) -> Result<Vec<PossibleHome>, PlatformError> {
        Ok(self.possible_homes(owner).await?)
    }

    async fn person(&self, id: &str) -> Result<Account, PlatformError> {
        self.user(id).await
    }

    fn own_id_hint(&self) -> &'static str {
        "in Slack, open your profile, then the menu with three dots, and choose Copy member ID"
    }

    async fn listen(&self, context: &ListenContext) -> PlatformError {
        self.receive(context).await
    }

    async fn open_thread(
        &self,
        home: &HomeChannel,
        title: &str,
        open_key: &str,
    ) -> Result<ThreadOutcome, PlatformError> {
        self.open(home, title, open_key).await
    }

    async fn delete_thread(&self, destination: &Source) -> Result<(), PlatformError> {
        Ok(self.delete_first(destination).await?)
    }

    async fn thread_left(&self, thread: &Source) -> Result<(), PlatformError> {
        Ok(self.show_session(thread, true).await?)
    }

    async fn thread_resumed(&self, thread: &Source) -> Result<(), PlatformError> {
        Ok(self.show_session(thread, false).await?)
    }

    fn destination(&self, home: &HomeChannel, opened: &ThreadOutcome) -> Source {
        let person = Some(&home.chat_id).filter(|id| is_person(id));
        let private = person.and_then(|person| self.places.private_with(person));
        let channel = private.as_ref().unwrap_or(&home.chat_id);
        address::of_home(home, channel, &self.me().workspace, opened)
    }

    async fn find_home(&self, home: &HomeChannel) -> Result<Source, PlatformError> {
        self.home_as_chat(home).await
    }

    fn split(&self, markdown: &str) -> Vec<String> {
        format::pieces(markdown)
    }

    async fn send(
        &self,
        to: &Source,
        what: OutboundMessage<'_>,
        send_key: &str,
    ) -> Result<String, PlatformError> {
        self.post(to, what, send_key).await
    }

    fn edit_interval(&self, _to: &Source) -> Option<Duration> {
        Some(Duration::from_millis(1200))
    }

    async fn edit(
        &self,
        to: &Source,
        message_id: &str,
        what: OutboundMessage<'_>,
    ) -> Result<(), PlatformError> {
        self.change(to, message_id, what).await
    }

    fn typing_interval(&self) -> Option<Duration> {
        // Slack shows it for two minutes, or until the next message.
        Some(Duration::from_secs(60))
    }

    async fn typing(&self, to: &Source) -> Result<(), PlatformError> {
        Ok(self.show_status(to).await?)
    }

    async fn acknowledge(&self, source: &Source, message_id: &str) -> Result<(), PlatformError> {
        match self.rules.reactions {
            true => Ok(self.react(source, message_id).await?),
            false => Ok(()),
        }
    }

    fn precedes(&self, message_id: &str, other: &str) -> Option<bool> {
        Some(address::micros(message_id)? < address::micros(other)?)
    }

    async fn confirm(&self, handle: &ReplyHandle, text: &str) -> Result<(), PlatformError> {
        match handle.secret() {
            Some(secret) => Ok(self.confirm_interaction(secret, text).await?),
            None => Ok(()),
        }
    }

    async fn fetch(
        &self,
        file: &RemoteFile,
        to: &std::path::Path,
        largest: u64,
    ) -> Result<(), PlatformError> {
        self.download(file, to, largest).await
    }
}
