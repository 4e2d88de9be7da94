//! The [`Backend`] that asks the daemon which serves the home.

use std::path::PathBuf;

use async_trait::async_trait;

use super::{Backend, DirectBackend, Status};
use crate::cli::handoff::{self, WaitLimits};
use crate::cli::output::{FAINT, Output};
use crate::cli::{CliError, sessions};
use crate::client::{Client, ClientError};
use crate::config::{Config, paths};
use crate::handoff::request::HandoffWish;
use crate::home_files::{live_gateway, recorded_socket};
use crate::protocol::{
    Call, HandoffId, HandoffList, HandoffRequest, HandoffView, HitView, LocalMessageView,
    LocalRead, LocalThreadView, Nothing, PlatformView, ResumedView, SessionList, SessionName,
    SessionRename, SessionResume, SessionSearch, SessionView, TranscriptView, TranscriptWish,
};

pub(in crate::cli) struct DaemonBackend {
    config: Config,
    client: Client,
}

impl DaemonBackend {
    pub(in crate::cli) fn new(config: &Config, client: Client) -> DaemonBackend {
        DaemonBackend {
            config: config.clone(),
            client,
        }
    }
}

#[async_trait(?Send)]
impl Backend for DaemonBackend {
    fn daemon(&self) -> Result<&Client, CliError> {
        Ok(&self.client)
    }

    async fn sessions(&self, wish: SessionList) -> Result<Vec<SessionView>, CliError> {
        Ok(self.client.call(Call::SessionList(wish)).await?)
    }

    async fn session(&self, name: &str) -> Result<SessionView, CliError> {
        let session = name.to_owned();
        Ok(self
            .client
            .call(Call::SessionShow(SessionName { session }))
            .await?)
    }

    async fn transcript(&self, wish: TranscriptWish) -> Result<TranscriptView, CliError> {
        Ok(self.client.call(Call::SessionTranscript(wish)).await?)
    }

    /// Reads the database itself if it can, because messages on the socket are cut to fit a frame.
    async fn whole_transcript(&self, name: &str) -> Result<TranscriptView, CliError> {
        let same_home = self.client.server().home == self.config.home.display().to_string();
        if same_home && let Ok(direct) = DirectBackend::open(&self.config) {
            return direct.whole_transcript(name).await;
        }
        let everything = TranscriptWish {
            session: name.to_owned(),
            hidden: true,
            ..TranscriptWish::default()
        };
        sessions::whole(self, &everything).await
    }

    async fn search(&self, wish: SessionSearch) -> Result<Vec<HitView>, CliError> {
        Ok(self.client.call(Call::SessionSearch(wish)).await?)
    }

    async fn rename(&self, wish: SessionRename) -> Result<SessionView, CliError> {
        Ok(self.client.call(Call::SessionRename(wish)).await?)
    }

    async fn resume(&self, session: Option<String>) -> Result<ResumedView, CliError> {
        let wish = SessionResume { session };
        Ok(self.client.call(Call::SessionResume(wish)).await?)
    }

    async fn handoffs(&self, wish: HandoffList) -> Result<Vec<HandoffView>, CliError> {
        Ok(self.client.call(Call::HandoffList(wish)).await?)
    }

    async fn handoff(&self, id: i64) -> Result<HandoffView, CliError> {
        Ok(self
            .client
            .call(Call::HandoffShow(HandoffId { id }))
            .await?)
    }

    async fn request_handoff(&self, wish: HandoffWish) -> Result<HandoffView, CliError> {
        handoff::subscribe(&self.client).await?;
        // A daemon of another version may not know these fields.
        let known = self.client.server().version == crate::VERSION;
        let terminal = if known {
            wish.terminal
        } else {
            Default::default()
        };
        let call = HandoffRequest {
            platform: wish.platform,
            session: wish.session,
            note: wish.note,
            tty: wish.tty,
            terminals: terminal.ids,
            terminal_since: terminal.since,
            after_turn: wish.after_turn,
            force: wish.force,
            replace: wish.replace,
        };
        Ok(self.client.call(Call::HandoffRequest(call)).await?)
    }

    async fn follow_handoff(
        &self,
        out: &Output,
        handoff: HandoffView,
        limits: WaitLimits,
    ) -> Result<(), CliError> {
        if handoff.after_turn {
            out.line(out.styled(FAINT, "the handoff begins after the turn in progress"))?;
        }
        handoff::follow(&self.client, &self.config, out, handoff, limits).await
    }

    async fn cancel_handoff(&self, id: i64) -> Result<HandoffView, CliError> {
        Ok(self
            .client
            .call(Call::HandoffCancel(HandoffId { id }))
            .await?)
    }

    async fn platforms(&self) -> Result<Vec<PlatformView>, CliError> {
        Ok(self.client.call(Call::PlatformList(Nothing {})).await?)
    }

    async fn status(&self) -> Result<Status, CliError> {
        let status = self.client.call(Call::Status(Nothing {})).await?;
        Ok(Status::Served(status))
    }

    async fn local_threads(&self) -> Result<Vec<LocalThreadView>, CliError> {
        Ok(self.client.call(Call::LocalThreads(Nothing {})).await?)
    }

    async fn local_messages(&self, wish: LocalRead) -> Result<Vec<LocalMessageView>, CliError> {
        Ok(self.client.call(Call::LocalRead(wish)).await?)
    }
}

/// The daemon that serves this home. The daemon of another home counts only if the command line names its socket.
pub(in crate::cli) async fn find_daemon(
    config: &Config,
    socket_is_explicit: bool,
) -> Result<Option<Client>, CliError> {
    let mut candidates: Vec<PathBuf> = Vec::new();
    // If a Hermes gateway serves the home, a connection to the service manager's socket would start a daemon that
    // refuses to run, again and again.
    if socket_is_explicit {
        candidates.push(config.control.socket.clone());
    } else if live_gateway(&config.home).is_none() {
        candidates.extend(recorded_socket(&config.home));
        candidates.push(config.control.socket.clone());
        candidates.extend(config.control.sticky_socket.clone());
    }
    if !socket_is_explicit {
        candidates.push(paths::SYSTEM_SOCKET.into());
    }
    for path in candidates {
        match Client::connect(&path).await {
            Ok(client) => {
                let same_home = client.server().home == config.home.display().to_string();
                // A command line that names no home accepts the system's daemon too.
                if same_home || socket_is_explicit || !config.home_is_explicit {
                    return Ok(Some(client));
                }
            }
            // If the command line names a socket, there is no alternative. The error says whether the socket exists.
            Err(error) if socket_is_explicit => return Err(error.into()),
            Err(ClientError::NoDaemon { .. } | ClientError::Lost) => {}
            Err(refused) => return Err(refused.into()),
        }
    }
    Ok(None)
}
