//! Invoked by `hermesctl chat`.
//!
//! Talks to the agent in the terminal, over the socket. The daemon stores the messages and runs the agent. This module
//! is the keyboard and the screen.

mod commands;
mod completing;
mod editor;
mod input;
mod question;
mod reconnect;
mod screen;
mod signals;
mod turn;

use std::collections::VecDeque;
use std::rc::Rc;

use super::backend::{Backend, Target};
use super::markdown::Markdown;
use super::output::{self, BOLD, FAINT, Output};
use super::visible::visible;
use super::{CliError, sessions, terminal};
use crate::client::News;
use crate::config::Config;
use crate::domain::slash_command::{self, ParsedInput, Place};
use crate::protocol::{
    Call, ChatOpen, ChatTurnView, ChatView, EventKind, EventsSubscribe, MessageView, Nothing,
    SessionView, TranscriptWish,
};
use crate::visible_text::visible_line;
use completing::PromptMark;
use editor::InputEvent;
use input::Input;
pub(super) use input::is_terminal;
use question::OpenQuestion;
use signals::{Ended, Sent, Signals};

/// The number of messages that are shown of a resumed session.
const RECALLED: usize = 10;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "In the chat, /help lists the commands. Ctrl-C interrupts a reply, a second Ctrl-C leaves.\n\nExamples:\n  hermesctl chat\n  hermesctl chat --title \"Fix the parser\"\n  hermesctl chat --resume last\n  echo \"how far are we?\" | hermesctl chat --resume \"Fix the parser\""
)]
pub struct ChatArgs {
    /// Resume this session: id, beginning of an id, title, or `last`. If it is in a chat, it is brought back.
    #[arg(long, value_name = "NAME")]
    pub resume: Option<String>,
    /// A title for a new session.
    #[arg(long, value_name = "TITLE", conflicts_with = "resume")]
    pub title: Option<String>,
    /// The agent that answers in this session from now on: see `hermesctl agents`.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Move the session to the current directory. Without this option, it stays in the directory that it has.
    #[arg(long, requires = "resume")]
    pub here: bool,
}

pub(super) async fn run(target: &Target, out: &Output, args: ChatArgs) -> Result<(), CliError> {
    let (config, backend) = target.open().await?;
    let wish = ChatOpen {
        title: args.title,
        agent: args.agent,
        here: args.here,
        ..opening(args.resume)?
    };
    converse(target, backend, &config, out, wish).await
}

/// The request to open a session in this terminal.
pub(super) fn opening(session: Option<String>) -> Result<ChatOpen, CliError> {
    let here = terminal::directory();
    // A session that exists may have a directory.
    let cwd = match &session {
        Some(_) => here.ok(),
        None => Some(here?),
    };
    Ok(ChatOpen {
        session,
        tty: terminal::tty(),
        cwd,
        ..ChatOpen::default()
    })
}

/// Opens a session and talks in it.
pub(super) async fn converse(
    target: &Target,
    backend: Box<dyn Backend>,
    config: &Config,
    out: &Output,
    wish: ChatOpen,
) -> Result<(), CliError> {
    let call = Call::ChatOpen(wish.clone());
    let opened: ChatView = backend.daemon()?.call(call).await?;
    let mut chat = Chat {
        target,
        backend: backend.into(),
        config,
        out,
        wish: ChatOpen {
            title: None,
            here: false,
            ..wish
        },
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
    // This restores the mode of the terminal before an error is printed.
    drop(chat);
    outcome
}

struct Chat<'a> {
    target: &'a Target,
    /// Replaced when the daemon comes back.
    backend: Rc<dyn Backend>,
    config: &'a Config,
    out: &'a Output,
    /// The request that opened the first session.
    wish: ChatOpen,
    session: SessionView,
    /// Whether the session has messages, so that it can be resumed.
    spoken: bool,
    input: Input,
    /// Lines that were typed during a turn.
    queued: VecDeque<String>,
    signals: Signals,
    /// Ctrl-Cs in a row.
    interrupts: usize,
    /// The open questions of the agent.
    asked: Vec<OpenQuestion>,
    /// The exit code of the last error, if the input is not a terminal.
    failed: Option<u8>,
}

/// What to do next.
enum Next {
    Continue,
    Leave,
}

impl Chat<'_> {
    async fn run(&mut self) -> Result<(), CliError> {
        loop {
            let next = match self.queued.pop_front() {
                Some(line) => {
                    // It was typed without an echo. `note` would render the `>` as a quotation of Markdown.
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

    /// Waits for the next line, a signal, or an event.
    async fn wait(&mut self) -> Result<Next, CliError> {
        let backend = self.backend.clone();
        let client = backend.daemon()?;
        self.input.offer(client).await;
        loop {
            tokio::select! {
                event = self.input.line() => return match event {
                    InputEvent::Line(line) => {
                        self.interrupts = 0;
                        if self.is_answer(&line) {
                            self.answer_question(line).await?;
                            return Ok(Next::Continue);
                        }
                        self.handle(line).await
                    }
                    InputEvent::TypedAhead(line) => {
                        self.queued.push_back(line);
                        Ok(Next::Continue)
                    }
                    InputEvent::Answering => Ok(Next::Continue),
                    InputEvent::Interrupt => self.interrupted_at_prompt(),
                    InputEvent::End => Ok(Next::Leave),
                },
                sent = self.signals.next() => return match sent {
                    Sent::Interrupt => self.interrupted_at_prompt(),
                    Sent::End(ended) => self.end_by(ended).await,
                },
                news = client.news() => match news {
                    None => return self.reconnect().await,
                    Some(news) => self.show_event(&news)?,
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
        Ok(Next::Continue)
    }

    /// Handles a typed line: a command, or a message for the agent.
    async fn handle(&mut self, line: String) -> Result<Next, CliError> {
        if line.trim().is_empty() {
            return Ok(Next::Continue);
        }
        match slash_command::read(&line, Place::Terminal) {
            ParsedInput::Words => {
                self.spoken = true;
                self.say(&line).await
            }
            ParsedInput::NotHere(why) => {
                self.out.line(&why)?;
                Ok(Next::Continue)
            }
            ParsedInput::Command(command, rest) => {
                let rest = rest.to_owned();
                match self.perform(command, &rest).await {
                    Err(CliError::NoDaemon { .. }) => {
                        let next = self.reconnect().await?;
                        self.queued.push_front(line);
                        Ok(next)
                    }
                    next => self.continue_after(next),
                }
            }
        }
    }

    /// Prints a refusal and continues. Only a lost daemon or a closed output ends the chat.
    fn continue_after(&mut self, next: Result<Next, CliError>) -> Result<Next, CliError> {
        match next {
            Err(
                error @ (CliError::Refused { .. }
                | CliError::Failed { .. }
                | CliError::TimedOut { .. }
                | CliError::Other(_)),
            ) => {
                self.complain(&error)?;
                Ok(Next::Continue)
            }
            other => other,
        }
    }

    /// Prints an error: for a person between the messages, for a program on stderr. A program also gets it as the exit
    /// code at the end.
    fn complain(&mut self, error: &CliError) -> Result<(), CliError> {
        if self.input.is_interactive() {
            return self.out.complain(error);
        }
        self.failed = Some(error.exit_code());
        output::report(error, self.out.is_json());
        Ok(())
    }

    /// Leaves after the daemon has finalised the session.
    async fn leave(&mut self) -> Result<(), CliError> {
        let id = self.session.id.clone();
        let backend = self.backend.clone();
        let client = backend.daemon()?;
        let _: serde_json::Value = client.call(Call::ChatLeave(Nothing {})).await?;
        let kept: Result<SessionView, _> = client
            .call(Call::SessionShow(crate::protocol::SessionName {
                session: id,
            }))
            .await;
        match kept {
            // For a session that moved to a chat, the remedy was printed before.
            Ok(session)
                if self.input.is_interactive()
                    && session.message_count > 0
                    && session.session_key.is_none() =>
            {
                self.note(&format!(
                    "Resume it with: hermesctl chat --resume {}",
                    session.id
                ))?;
            }
            _ => {}
        }
        match self.failed {
            Some(code) => Err(CliError::Reported { code }),
            None => Ok(()),
        }
    }

    /// Leaves because of a signal. The daemon stores the part of the reply that it has.
    async fn end_by(&mut self, signal: Ended) -> Result<Next, CliError> {
        let leave = self
            .backend
            .daemon()?
            .call::<serde_json::Value>(Call::ChatLeave(Nothing {}));
        let _ = tokio::time::timeout(std::time::Duration::from_secs(5), leave).await;
        Err(CliError::Reported {
            code: signal.code(),
        })
    }

    fn lost(&self) -> CliError {
        let kept = match self.spoken {
            true => format!(
                ": the messages are stored, and `hermesctl chat --resume {}` resumes the session",
                self.session.id
            ),
            false => String::new(),
        };
        CliError::NoDaemon {
            message: format!("the connection to the daemon was lost{kept}"),
        }
    }

    /// Shows an event of this session between turns.
    fn show_event(&mut self, news: &News) -> Result<(), CliError> {
        let News::Event(event) = news else {
            return Ok(());
        };
        // The agent of a handoff asks in the chat. This terminal may answer, too.
        let width = self.input.is_interactive().then(|| self.out.width());
        if let Some(text) = question::update(&event.event, &mut self.asked, width) {
            self.out.value(&event.event)?;
            self.input.mark(match self.asked.is_empty() {
                true => PromptMark::Usual,
                false => PromptMark::Asked,
            });
            let expected = self.asked.first().map(|asked| asked.prompt.trim_end());
            let expected = expected.map(|prompt| format!("\n{prompt}"));
            let text = format!("{text}{}", expected.unwrap_or_default());
            return self.tell(&self.out.styled(BOLD, &text));
        }
        if let EventKind::SessionReplaced { platform, by, .. } = &event.event {
            let text = format!(
                "Session {by} has taken the place of this one on {platform}. /resume brings this one back."
            );
            return self.tell(&self.out.styled(BOLD, &text));
        }
        let moved_to = match &event.event {
            EventKind::SessionMoved { to, .. } if to != crate::domain::TERMINAL => to,
            EventKind::HandoffEnded {
                state, platform, ..
            } if state == "completed" => platform,
            _ => return Ok(()),
        };
        let text =
            format!("This session is on {moved_to} now. /resume brings it back, /quit leaves.");
        self.tell(&self.out.styled(BOLD, &text))
    }

    /// Prints lines between turns. If the prompt is on the screen, it is drawn again below them.
    fn tell(&self, text: &str) -> Result<(), CliError> {
        match self.input.print_above(&format!("{}\n", visible(text))) {
            true => Ok(()),
            false => self.out.line(text),
        }
    }

    /// Subscribes to the events of this session.
    async fn listen(&self) -> Result<(), CliError> {
        let topics = ["turn", "handoff", "session"].map(str::to_owned);
        let wish = EventsSubscribe {
            topics: topics.into(),
            session: Some(self.session.id.clone()),
        };
        let call = Call::EventsSubscribe(wish);
        let _: serde_json::Value = self.backend.daemon()?.call(call).await?;
        Ok(())
    }

    /// Compaction may split the session during a turn. Continues with the new session.
    async fn follow(&mut self, turn: &ChatTurnView) -> Result<(), CliError> {
        if turn.session == self.session.id {
            return Ok(());
        }
        self.session.id = turn.session.clone();
        self.listen().await
    }

    /// Subscribes to a newly opened session, and prints its last messages.
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
            let past = sessions::whole(self.backend.as_ref(), &wish).await?;
            if past.earlier {
                let count = opened.session.message_count;
                self.note(&format!("… {count} messages in all"))?;
            }
            for message in &past.messages {
                self.recall(message)?;
            }
        }
        self.show_header(name, opened)?;
        self.note("/help lists the commands, Ctrl-D leaves.")?;
        self.show_directory(&opened.session)
    }

    /// The session, its agent and its directory, in one row.
    fn show_header(&self, name: &str, opened: &ChatView) -> Result<(), CliError> {
        let agent = opened.agent.as_deref();
        let cwd = opened.session.cwd.as_deref();
        let facts: Vec<String> = agent
            .map(|agent| format!("agent {agent}"))
            .into_iter()
            .chain(cwd.map(|cwd| format!("in {cwd}")))
            .collect();
        let (name, facts) = (
            visible_line(name),
            visible_line(&facts.join(" ")).into_owned(),
        );
        self.out.line(format!(
            "{}  {}",
            self.out.styled(BOLD, &name),
            self.out.styled(FAINT, &facts)
        ))
    }

    /// Says where the agent works, if that is not here.
    fn show_directory(&self, session: &SessionView) -> Result<(), CliError> {
        match &session.cwd {
            Some(cwd) if terminal::directory().ok().as_ref() != Some(cwd) => {
                let text = format!("This session works in {cwd}, not in the current directory.");
                self.out.line(self.out.styled(FAINT, &text))
            }
            _ => Ok(()),
        }
    }

    /// Prints an earlier message.
    fn recall(&self, message: &MessageView) -> Result<(), CliError> {
        if let Some(line) = sessions::handoff_line(message) {
            return self.out.line(self.out.styled(FAINT, &line));
        }
        let (who, text) = sessions::in_words(message);
        self.out.line(self.out.styled(BOLD, &who))?;
        let mut rows = Markdown::new(self.out.width(), self.out.has_colour());
        let text = rows.push(&text) + &rows.finish();
        self.out.raw(&text)
    }

    /// Prints a note of hermesctl itself, in a faint style.
    fn note(&self, text: &str) -> Result<(), CliError> {
        let mut rows = Markdown::new(self.out.width(), false);
        let text = rows.push(text) + &rows.finish();
        text.lines()
            .try_for_each(|row| self.out.line(self.out.styled(FAINT, row)))
    }
}
