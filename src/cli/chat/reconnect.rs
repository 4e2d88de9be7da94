//! Waits for the daemon when it goes away, and takes the session back from the next one. What is typed meanwhile is
//! kept.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, interval, sleep, sleep_until};

use super::completing::PromptMark;
use super::editor::InputEvent;
use super::{Chat, Next, Sent};
use crate::cli::CliError;
use crate::cli::backend::{Backend, DaemonBackend, Target, find_daemon};
use crate::cli::output::{FAINT, to_stderr};
use crate::client::Client;
use crate::domain::TERMINAL_SOURCES;
use crate::domain::slash_command::{self, Command, ParsedInput, Place};
use crate::protocol::{
    Call, ChatOpen, ChatView, SessionName, SessionView, TranscriptView, TranscriptWish,
};

/// The pauses between attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long a pipe waits. A person may leave at any time. hermesctl(1) names it.
const PIPE_PATIENCE: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(250);
const SPINNER: [char; 4] = ['⠋', '⠙', '⠸', '⠴'];
/// The messages among which a message is looked for that may have been stored.
const LOOKED_AT: usize = 20;

/// What the next daemon has of the session.
enum Taken {
    /// This terminal is attached again.
    Attached(Box<ChatView>),
    /// A chat has it.
    OnChat(Box<SessionView>),
}

impl Chat<'_> {
    /// Waits for a daemon and takes the session back.
    pub(super) async fn reconnect(&mut self) -> Result<Next, CliError> {
        let lost = self.lost();
        self.asked.clear();
        self.input.mark(PromptMark::Waiting);
        self.announce("The daemon went away. Waiting for it to come back (Ctrl-C leaves).")?;
        let (target, wish) = (self.target, self.taking_back());
        let taking = take_back(target, wish);
        tokio::pin!(taking);
        let begun = Instant::now();
        let deadline = (!self.input.is_interactive()).then(|| begun + PIPE_PATIENCE);
        let given_up = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(given_up);
        let mut ticks = interval(TICK);
        let taken = loop {
            let spins = self.input.is_interactive() && !self.input.is_prompting();
            tokio::select! {
                taken = &mut taking => break taken,
                event = self.input.typed_meanwhile() => match event {
                    InputEvent::Line(line) | InputEvent::TypedAhead(line) => {
                        if is_quit(&line) {
                            break Err(lost);
                        }
                        self.queued.push_back(line);
                    }
                    InputEvent::Answering => {}
                    InputEvent::Interrupt | InputEvent::End => break Err(lost),
                },
                sent = self.signals.next() => match sent {
                    Sent::Interrupt => break Err(lost),
                    Sent::End(ended) => break Err(CliError::Reported { code: ended.code() }),
                },
                () = &mut given_up => break Err(lost),
                _ = ticks.tick(), if spins => {
                    let waited = begun.elapsed();
                    let at = waited.as_millis() / TICK.as_millis();
                    let spinner = SPINNER[usize::try_from(at).unwrap_or_default() % SPINNER.len()];
                    let text = format!("{spinner} {} s", waited.as_secs());
                    self.out.passing(&self.out.styled(FAINT, &text))?;
                }
            }
        };
        if self.input.is_interactive() && !self.input.is_prompting() {
            self.out.erase_passing()?;
        }
        self.input.mark(PromptMark::Usual);
        let (backend, taken) = taken?;
        self.backend = backend;
        match taken {
            Taken::Attached(opened) => {
                self.session = opened.session;
                self.announce("The daemon is back, and has the session.")?;
            }
            Taken::OnChat(session) => {
                let text = format!(
                    "The daemon is back. This session is on {} now: /resume brings it back.",
                    session.source
                );
                self.session = *session;
                self.announce(&text)?;
            }
        }
        self.listen().await?;
        Ok(Next::Continue)
    }

    /// Waits for the daemon after a message whose answer was lost. Sends the message again if it was not stored.
    pub(super) async fn reconnect_after(
        &mut self,
        text: &str,
        sent_at: f64,
    ) -> Result<Next, CliError> {
        let next = self.reconnect().await?;
        match self.has_stored(text, sent_at).await {
            Ok(true) => {
                self.announce("The answer was interrupted. The session has what was said.")?
            }
            _ => self.queued.push_front(text.to_owned()),
        }
        Ok(next)
    }

    async fn has_stored(&self, text: &str, sent_at: f64) -> Result<bool, CliError> {
        let wish = TranscriptWish {
            session: self.session.id.clone(),
            last: Some(LOOKED_AT),
            ..TranscriptWish::default()
        };
        let client = self.backend.daemon()?;
        let page: TranscriptView = client.call(Call::SessionTranscript(wish)).await?;
        let mut users = page
            .messages
            .iter()
            .filter(|message| message.role == "user");
        Ok(users.any(|message| message.timestamp >= sent_at && message.content == text))
    }

    /// The request that opens this session again.
    fn taking_back(&self) -> ChatOpen {
        ChatOpen {
            session: Some(self.session.id.clone()),
            ..self.wish.clone()
        }
    }

    /// Prints a note of hermesctl itself: above the prompt if it is there, for a program on stderr.
    pub(super) fn announce(&self, text: &str) -> Result<(), CliError> {
        match self.input.is_interactive() {
            true => self.tell(&self.out.styled(FAINT, text)),
            false => {
                to_stderr(text);
                Ok(())
            }
        }
    }
}

fn is_quit(line: &str) -> bool {
    matches!(
        slash_command::read(line, Place::Terminal),
        ParsedInput::Command(Command::Quit, _)
    )
}

/// Connects to the next daemon and opens the session there.
async fn take_back(target: &Target, wish: ChatOpen) -> Result<(Rc<dyn Backend>, Taken), CliError> {
    let mut pause = FIRST_PAUSE;
    loop {
        match attempt(target, &wish).await {
            Ok(Some(taken)) => return Ok(taken),
            Ok(None) => {}
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn attempt(
    target: &Target,
    wish: &ChatOpen,
) -> Result<Option<(Rc<dyn Backend>, Taken)>, CliError> {
    let config = target.config()?;
    let Some(client) = find_daemon(&config, target.socket_is_explicit).await? else {
        return Ok(None);
    };
    let taken = open(&client, wish).await?;
    let backend: Rc<dyn Backend> = Rc::new(DaemonBackend::new(&config, client));
    Ok(Some((backend, taken)))
}

async fn open(client: &Client, wish: &ChatOpen) -> Result<Taken, CliError> {
    let name = SessionName {
        session: wish.session.clone().unwrap_or_default(),
    };
    let session = client.call::<SessionView>(Call::SessionShow(name)).await;
    let wish = match session.map_err(CliError::from) {
        // To open it would take it away from the chat.
        Ok(session) if !TERMINAL_SOURCES.contains(&session.source.as_str()) => {
            return Ok(Taken::OnChat(Box::new(session)));
        }
        Ok(_) => wish.clone(),
        // Nothing was said in it, so it has no row. Another one takes its place.
        Err(CliError::Refused { kind, .. }) if kind == "unknown_session" => ChatOpen {
            session: None,
            ..wish.clone()
        },
        Err(error) => return Err(error),
    };
    let opened: ChatView = client.call(Call::ChatOpen(wish)).await?;
    Ok(Taken::Attached(Box::new(opened)))
}

/// Whether another attempt may succeed. The daemon may still finalise the session for the lost connection.
fn is_passing(error: &CliError) -> bool {
    match error {
        CliError::NoDaemon { .. } => true,
        CliError::Refused { kind, .. } => [
            "stopping",
            "open_elsewhere",
            "database_busy",
            "turn_in_progress",
        ]
        .contains(&kind.as_str()),
        _ => false,
    }
}
