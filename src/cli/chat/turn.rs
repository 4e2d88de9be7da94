//! Runs one turn: shows the reply as it arrives. Ctrl-C and `/stop` interrupt it.

use std::time::Duration;

use tokio::time::{Instant, interval};

use super::editor::InputEvent;
use super::{Chat, Next, Sent, question};
use crate::cli::CliError;
use crate::cli::markdown::Markdown;
use crate::cli::output::{BOLD, FAINT, Output, to_stderr};
use crate::client::{ClientError, News};
use crate::domain::slash_command::{self, Command, ParsedInput, Place};
use crate::protocol::{Call, ChatSay, ChatTurnView, EventKind, Nothing};

const TICK: Duration = Duration::from_secs(1);

impl Chat<'_> {
    pub(super) async fn say(&mut self, text: &str) -> Result<Next, CliError> {
        let call = ChatSay {
            text: text.to_owned(),
        };
        let client = self.client;
        let answer = client.call::<ChatTurnView>(Call::ChatSay(call));
        tokio::pin!(answer);
        let mut screen = Screen::new(self.out, self.input.is_interactive());
        let mut ticks = interval(TICK);
        let mut interrupts = 0;
        loop {
            tokio::select! {
                biased;
                news = client.news() => match news {
                    Some(news) => screen.handle(&news, &mut self.asked)?,
                    None => {
                        screen.close()?;
                        return Err(self.lost());
                    }
                },
                answered = &mut answer => {
                    let next = match answered {
                        Ok(turn) => {
                            screen.finish(&turn)?;
                            self.follow(&turn).await?;
                            self.show_error(&turn)?;
                            Ok(Next::Continue)
                        }
                        Err(ClientError::Lost) => { screen.close()?; Err(self.lost()) }
                        Err(refused) => { screen.close()?; Err(refused.into()) }
                    };
                    // Another Ctrl-C after an interrupted turn leaves.
                    self.interrupts = interrupts;
                    return self.continue_after(next);
                }
                sent = self.signals.next() => match sent {
                    Sent::Interrupt if interrupts > 0 => {
                        screen.close()?;
                        return Ok(Next::Leave);
                    }
                    Sent::Interrupt => {
                        interrupts += 1;
                        stop(client).await?;
                    }
                    Sent::End(ended) => {
                        // Leaving is more important than an output that may be closed.
                        let _ = screen.close();
                        return self.end_by(ended).await;
                    }
                },
                event = self.input.typed_during_turn(!self.asked.is_empty()) => match event {
                    InputEvent::Line(line) if self.is_answer(&line) => {
                        self.answer_question(line).await?;
                    }
                    // A line that was typed ahead is older than the question, so it does not answer it.
                    InputEvent::Line(line)
                    | InputEvent::TypedAhead(line) => match slash_command::read(&line, Place::Terminal) {
                        ParsedInput::Command(Command::Stop, _) => stop(client).await?,
                        ParsedInput::Command(Command::Quit, _) => {
                            screen.close()?;
                            return Ok(Next::Leave);
                        }
                        _ if line.trim().is_empty() => {}
                        _ => self.queued.push_back(line),
                    },
                    InputEvent::Interrupt => stop(client).await?,
                    InputEvent::End => {
                        let _ = screen.close();
                        return Ok(Next::Leave);
                    }
                },
                _ = ticks.tick() => screen.tick()?,
            }
        }
    }

    /// Prints why the reply is missing or incomplete. In JSON mode, the turn object has it already.
    fn show_error(&mut self, turn: &ChatTurnView) -> Result<(), CliError> {
        let Some(error) = &turn.error else {
            return Ok(());
        };
        let error = CliError::Failed {
            message: format!("no reply: {error}"),
            hint: None,
        };
        if self.out.is_json() {
            self.failed = Some(error.exit_code());
            return Ok(());
        }
        self.complain(&error)
    }

    /// Whether a line answers a question of the agent.
    pub(super) fn is_answer(&self, line: &str) -> bool {
        !self.asked.is_empty()
            && matches!(
                slash_command::read(line, Place::Terminal),
                ParsedInput::Words
            )
    }

    /// Sends the answer to an open question.
    pub(super) async fn answer_question(&mut self, line: String) -> Result<(), CliError> {
        let answer = ChatSay { text: line.clone() };
        let answered = self
            .client
            .call::<serde_json::Value>(Call::ChatAnswer(answer));
        match answered.await {
            Ok(answered) => {
                let answered = answered["question"].as_str();
                self.asked.retain(|open| Some(open.as_str()) != answered);
                Ok(())
            }
            Err(ClientError::Refused(error)) => {
                let kind = error.data.as_ref().map(|data| data.kind.as_str());
                if kind == Some("no_question") {
                    // The question is no longer open, so the line is a message.
                    self.queued.push_back(line);
                    self.asked.clear();
                    return Ok(());
                }
                self.out.line(&error.message)?;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

async fn stop(client: &crate::client::Client) -> Result<(), CliError> {
    let _: serde_json::Value = client.call(Call::ChatStop(Nothing {})).await?;
    Ok(())
}

/// The output of one turn.
struct Screen<'a> {
    out: &'a Output,
    /// Renders the reply as it arrives for a person. `None` for a pipe, which gets it at the end.
    markdown: Option<Markdown>,
    /// The turn whose pieces are shown. Late pieces of an earlier turn may still arrive.
    turn: Option<u64>,
    /// The part of the reply that was shown, as Markdown.
    shown: String,
    /// Pieces were lost. The missing part is shown at the end.
    lost: bool,
    since: Instant,
    waiting: bool,
}

impl<'a> Screen<'a> {
    fn new(out: &'a Output, interactive: bool) -> Screen<'a> {
        let markdown = interactive.then(|| Markdown::new(out.width(), out.has_colour()));
        Screen {
            out,
            markdown,
            turn: None,
            shown: String::new(),
            lost: false,
            since: Instant::now(),
            waiting: false,
        }
    }

    /// Shows an event. Adds questions to `asked`, and removes those that are closed.
    fn handle(&mut self, news: &News, asked: &mut Vec<String>) -> Result<(), CliError> {
        match news {
            News::Missed(_) => self.lost = true,
            News::Event(event) => match &event.event {
                EventKind::TurnStarted { turn, .. } => self.turn = Some(*turn),
                EventKind::TurnWaiting { holder, .. } => self.show_waiting(holder)?,
                EventKind::TurnDelta { turn, text, .. }
                    if self.turn == Some(*turn) && !self.lost =>
                {
                    self.show(text)?;
                }
                other => {
                    let width = self.markdown.is_some().then(|| self.out.width());
                    if let Some(text) = question::update(other, asked, width) {
                        self.close()?;
                        self.out.value(other)?;
                        self.out.line(self.out.styled(BOLD, &text))?;
                    }
                }
            },
        }
        Ok(())
    }

    /// Prints that the turn waits. This is no part of the reply.
    fn show_waiting(&mut self, holder: &str) -> Result<(), CliError> {
        let text = format!(
            "Another program uses this session ({holder}). The reply comes when it has finished."
        );
        if self.markdown.is_some() {
            self.clear_waiting()?;
            self.out.line(self.out.styled(FAINT, &text))?;
        } else if !self.out.is_json() {
            to_stderr(&text);
        }
        Ok(())
    }

    fn show(&mut self, text: &str) -> Result<(), CliError> {
        self.shown.push_str(text);
        let Some(markdown) = &mut self.markdown else {
            return Ok(());
        };
        markdown.resize(self.out.width());
        let rows = markdown.push(text);
        if !rows.is_empty() {
            self.clear_waiting()?;
        }
        self.out.raw(&rows)
    }

    /// Shows the seconds until the reply begins.
    fn tick(&mut self) -> Result<(), CliError> {
        let seconds = self.since.elapsed().as_secs();
        if self.markdown.is_none() || !self.shown.is_empty() || seconds == 0 {
            return Ok(());
        }
        self.waiting = true;
        let text = format!("… {seconds} s (Ctrl-C stops)");
        self.out.passing(&self.out.styled(FAINT, &text))
    }

    fn clear_waiting(&mut self) -> Result<(), CliError> {
        if std::mem::take(&mut self.waiting) {
            self.out.raw("\r\u{1b}[K")?;
        }
        Ok(())
    }

    /// Leaves the cursor at the beginning of a line.
    fn close(&mut self) -> Result<(), CliError> {
        self.clear_waiting()?;
        match &mut self.markdown {
            Some(markdown) => self.out.raw(&markdown.finish()),
            None => Ok(()),
        }
    }

    fn finish(mut self, turn: &ChatTurnView) -> Result<(), CliError> {
        self.out.value(turn)?;
        match turn.reply.strip_prefix(self.shown.as_str()) {
            // The daemon stores a reply without the white space at its end.
            None if self.shown.trim_end() == turn.reply => {}
            Some(rest) => {
                let rest = rest.to_owned();
                self.show(&rest)?;
            }
            // The final reply differs from the streamed one.
            None => {
                self.close()?;
                self.shown.clear();
                self.show(&turn.reply)?;
            }
        }
        self.close()?;
        if self.markdown.is_none() && !turn.reply.is_empty() {
            self.out.line(&turn.reply)?;
        }
        if turn.interrupted {
            self.out.line(self.out.styled(FAINT, "(interrupted)"))?;
        }
        if let Some(note) = &turn.note {
            self.out
                .line(self.out.styled(FAINT, &format!("({note})")))?;
        }
        Ok(())
    }
}
