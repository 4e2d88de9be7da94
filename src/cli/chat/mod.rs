//! Invoked by `hermesctl chat`.
//!
//! A conversation in the terminal, over the socket. The daemon stores the messages and runs the agent; this is the keyboard
//! and the screen.

mod commands;
mod editor;
mod input;
mod question;
mod turn;

use std::collections::VecDeque;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::backend::{Backend, Target};
use super::markdown::Markdown;
use super::output::{self, BOLD, FAINT, Output};
use super::{CliError, sessions, terminal};
use crate::client::{Client, News};
use crate::config::Config;
use crate::domain::slash_command::{self, ParsedInput, Place};
use crate::protocol::{
    Call, ChatOpen, ChatTurnView, ChatView, EventKind, EventsSubscribe, MessageView, Nothing,
    SessionView, TranscriptWish,
};
use editor::Heard;
use input::Input;
pub(super) use input::is_terminal;

/// How much of a session that is taken up again is shown.
const RECALLED: usize = 10;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "In the conversation, /help lists the commands; Ctrl-C interrupts an answer, a second one leaves.\n\nExamples:\n  hermesctl chat\n  hermesctl chat --title \"Fix the parser\"\n  hermesctl chat --resume last\n  echo \"how far are we?\" | hermesctl chat --resume \"Fix the parser\""
)]
pub struct ChatArgs {
    /// Go on with this session: id, beginning of an id, title, or `last`. A chat that has it lets it go.
    #[arg(long, value_name = "NAME")]
    pub resume: Option<String>,
    /// A title for a new session.
    #[arg(long, value_name = "TITLE", conflicts_with = "resume")]
    pub title: Option<String>,
    /// Who is to answer in this session from now on: see `hermesctl agents`.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
}

pub(super) async fn run(target: &Target, out: &Output, args: ChatArgs) -> Result<(), CliError> {
    let (config, backend) = target.open().await?;
    let wish = ChatOpen {
        session: args.resume,
        title: args.title,
        agent: args.agent,
        tty: terminal::tty(),
    };
    converse(backend.as_ref(), &config, out, wish).await
}

/// Opens a session and talks in it.
pub(super) async fn converse(
    backend: &dyn Backend,
    config: &Config,
    out: &Output,
    wish: ChatOpen,
) -> Result<(), CliError> {
    let client = backend.daemon()?;
    let opened: ChatView = client.call(Call::ChatOpen(wish)).await?;
    let mut chat = Chat {
        backend,
        client,
        config,
        out,
        session: opened.session.clone(),
        spoken: opened.resumed,
        input: Input::open(out),
        queued: VecDeque::new(),
        signals: Signals::new()?,
        interrupts: 0,
        asked: Vec::new(),
        failed: None,
    };
    chat.welcome(&opened).await?;
    let outcome = chat.run().await;
    // Before anything else is printed: the terminal has to be as it was found.
    drop(chat);
    outcome
}

struct Chat<'a> {
    backend: &'a dyn Backend,
    client: &'a Client,
    config: &'a Config,
    out: &'a Output,
    session: SessionView,
    /// There is something in it that can be taken up again.
    spoken: bool,
    input: Input,
    /// What was typed while an answer came.
    queued: VecDeque<String>,
    signals: Signals,
    /// Ctrl-Cs since anything else happened.
    interrupts: usize,
    /// Questions of the agent's that wait for an answer.
    asked: Vec<String>,
    /// The exit code of the last thing that went wrong, for programs.
    failed: Option<u8>,
}

/// What is to be done next.
enum Next {
    GoOn,
    Leave,
}

impl Chat<'_> {
    async fn run(&mut self) -> Result<(), CliError> {
        loop {
            let next = match self.queued.pop_front() {
                Some(line) => {
                    // It was typed unseen. Not as a note, which is Markdown: it would look like a quotation.
                    let shown: String = line.chars().filter(|c| !c.is_control()).collect();
                    let shown = self.out.styled(FAINT, &format!("> {shown}"));
                    self.out.line(shown)?;
                    self.handle(line).await?
                }
                None => self.wait().await?,
            };
            if matches!(next, Next::Leave) {
                return self.leave().await;
            }
        }
    }

    /// Waits for the next line, a signal, or news.
    async fn wait(&mut self) -> Result<Next, CliError> {
        self.input.offer(self.client).await;
        loop {
            tokio::select! {
                heard = self.input.line() => return match heard {
                    Heard::Line(line) => {
                        self.interrupts = 0;
                        if self.is_answer(&line) {
                            self.answer_question(line).await?;
                            return Ok(Next::GoOn);
                        }
                        self.handle(line).await
                    }
                    Heard::Unseen(line) => {
                        self.queued.push_back(line);
                        Ok(Next::GoOn)
                    }
                    Heard::Interrupt => self.interrupted_at_prompt(),
                    Heard::End => Ok(Next::Leave),
                },
                sent = self.signals.next() => return match sent {
                    Sent::Interrupt => self.interrupted_at_prompt(),
                    Sent::End(ended) => self.end_by(ended).await,
                },
                news = self.client.news() => match news {
                    None => return Err(self.lost()),
                    Some(news) => self.tell(&news)?,
                },
            }
        }
    }

    fn interrupted_at_prompt(&mut self) -> Result<Next, CliError> {
        self.interrupts += 1;
        if self.interrupts > 1 {
            return Ok(Next::Leave);
        }
        self.note("(Ctrl-C again leaves, like /quit)")?;
        Ok(Next::GoOn)
    }

    /// A line that was typed: a command, or words for the agent.
    async fn handle(&mut self, line: String) -> Result<Next, CliError> {
        if line.trim().is_empty() {
            return Ok(Next::GoOn);
        }
        match slash_command::read(&line, Place::Terminal) {
            ParsedInput::Words => {
                self.spoken = true;
                self.say(&line).await
            }
            ParsedInput::NotHere(why) => {
                self.out.line(&why)?;
                Ok(Next::GoOn)
            }
            ParsedInput::Command(command, rest) => {
                let rest = rest.to_owned();
                let next = self.perform(command, &rest).await;
                self.go_on_after(next)
            }
        }
    }

    /// What the daemon refuses is told, and the conversation goes on. Only a lost daemon or screen ends it.
    fn go_on_after(&mut self, next: Result<Next, CliError>) -> Result<Next, CliError> {
        match next {
            Err(
                error @ (CliError::Refused { .. }
                | CliError::Failed { .. }
                | CliError::TimedOut { .. }
                | CliError::Other(_)),
            ) => {
                self.complain(&error)?;
                Ok(Next::GoOn)
            }
            other => other,
        }
    }

    /// To a person beside the conversation; to a program apart from it, and in the exit code at the end.
    fn complain(&mut self, error: &CliError) -> Result<(), CliError> {
        if self.input.is_interactive() {
            return self.out.complain(error);
        }
        self.failed = Some(error.exit_code());
        output::report(error, self.out.is_json());
        Ok(())
    }

    /// Ends politely: what was said is kept, the session is finalised before we go.
    async fn leave(&mut self) -> Result<(), CliError> {
        let id = self.session.id.clone();
        let _: serde_json::Value = self.client.call(Call::ChatLeave(Nothing {})).await?;
        let kept: Result<SessionView, _> = self
            .client
            .call(Call::SessionShow(crate::protocol::SessionName {
                session: id,
            }))
            .await;
        match kept {
            // A session that went to a chat is not for taking up; how to get it back was said.
            Ok(session)
                if self.input.is_interactive()
                    && session.message_count > 0
                    && session.session_key.is_none() =>
            {
                self.note(&format!(
                    "Take it up again with: hermesctl chat --resume {}",
                    session.id
                ))?;
            }
            _ => {}
        }
        match self.failed {
            Some(code) => Err(CliError::Told { code }),
            None => Ok(()),
        }
    }

    /// A signal that ends programs: what the daemon has of an answer is kept.
    async fn end_by(&mut self, signal: Ended) -> Result<Next, CliError> {
        let leave = self
            .client
            .call::<serde_json::Value>(Call::ChatLeave(Nothing {}));
        let _ = tokio::time::timeout(std::time::Duration::from_secs(5), leave).await;
        Err(CliError::Told {
            code: signal.code(),
        })
    }

    fn lost(&self) -> CliError {
        let kept = match self.spoken {
            true => format!(
                "; what was said is kept, and `hermesctl chat --resume {}` goes on with it",
                self.session.id
            ),
            false => String::new(),
        };
        CliError::NoDaemon {
            message: format!("the daemon went away{kept}"),
        }
    }

    /// What happens to this session while nobody types.
    fn tell(&mut self, news: &News) -> Result<(), CliError> {
        let News::Event(event) = news else {
            return Ok(());
        };
        // A handoff asks in its chat; this terminal may answer, too.
        let width = self.input.is_interactive().then(|| self.out.width());
        if let Some(text) = question::heard(&event.event, &mut self.asked, width) {
            self.out.value(&event.event)?;
            return self.out.line(self.out.styled(BOLD, &format!("\n{text}")));
        }
        let moved_to = match &event.event {
            EventKind::SessionMoved { to, .. } if to != crate::domain::TERMINAL => to,
            EventKind::HandoffEnded {
                state, platform, ..
            } if state == "completed" => platform,
            _ => return Ok(()),
        };
        let text = format!(
            "\nThis conversation is on {moved_to} now. /resume takes it back, /quit leaves."
        );
        self.out.line(self.out.styled(BOLD, &text))
    }

    /// Listens to what happens to the session that this terminal is at.
    async fn listen(&self) -> Result<(), CliError> {
        let topics = ["turn", "handoff", "session"].map(str::to_owned);
        let wish = EventsSubscribe {
            topics: topics.into(),
            session: Some(self.session.id.clone()),
        };
        let _: serde_json::Value = self.client.call(Call::EventsSubscribe(wish)).await?;
        Ok(())
    }

    /// Compression may have split the session during a turn: goes on with the part that goes on.
    async fn follow(&mut self, turn: &ChatTurnView) -> Result<(), CliError> {
        if turn.session == self.session.id {
            return Ok(());
        }
        self.session.id = turn.session.clone();
        self.listen().await
    }

    /// A new place: what is to be heard of it, and what stood there before.
    async fn welcome(&mut self, opened: &ChatView) -> Result<(), CliError> {
        self.listen().await?;
        self.out.value(opened)?;
        if !self.input.is_interactive() {
            return Ok(());
        }
        if let Some(platform) = &opened.came_from {
            self.note(&format!("Brought back from {platform}."))?;
        }
        let name = opened.session.title.as_deref();
        let name = name.unwrap_or(&opened.session.id);
        if opened.resumed {
            let wish = TranscriptWish {
                session: opened.session.id.clone(),
                last: Some(RECALLED),
                ..TranscriptWish::default()
            };
            let past = sessions::whole(self.backend, &wish).await?;
            if past.earlier {
                let count = opened.session.message_count;
                self.note(&format!("… {count} messages in all"))?;
            }
            for message in &past.messages {
                self.recall(message)?;
            }
        }
        self.note(&format!("{name}: /help lists the commands, Ctrl-D leaves."))
    }

    /// A message that was there before, as it would have looked then.
    fn recall(&self, message: &MessageView) -> Result<(), CliError> {
        let (who, text) = sessions::in_words(message);
        self.out.line(self.out.styled(BOLD, &who))?;
        let mut rows = Markdown::new(self.out.width(), self.out.has_colour());
        let text = rows.push(&text) + &rows.finish();
        self.out.raw(&text)
    }

    /// A word of our own, which stands back behind the conversation.
    fn note(&self, text: &str) -> Result<(), CliError> {
        let mut rows = Markdown::new(self.out.width(), false);
        let text = rows.push(text) + &rows.finish();
        text.lines()
            .try_for_each(|row| self.out.line(self.out.styled(FAINT, row)))
    }
}

/// The signals that a terminal sends.
struct Signals {
    interrupt: Signal,
    hangup: Signal,
    terminate: Signal,
}

enum Sent {
    Interrupt,
    End(Ended),
}

#[derive(Debug, Clone, Copy)]
enum Ended {
    Hangup,
    Terminate,
}

impl Ended {
    /// As a shell tells it.
    fn code(self) -> u8 {
        match self {
            Ended::Hangup => 129,
            Ended::Terminate => 143,
        }
    }
}

impl Signals {
    fn new() -> Result<Signals, CliError> {
        let open = |kind| {
            signal(kind).map_err(|e| CliError::Other(format!("signals cannot be handled: {e}")))
        };
        Ok(Signals {
            interrupt: open(SignalKind::interrupt())?,
            hangup: open(SignalKind::hangup())?,
            terminate: open(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> Sent {
        tokio::select! {
            Some(()) = self.interrupt.recv() => Sent::Interrupt,
            Some(()) = self.hangup.recv() => Sent::End(Ended::Hangup),
            Some(()) = self.terminate.recv() => Sent::End(Ended::Terminate),
            else => std::future::pending().await,
        }
    }
}
