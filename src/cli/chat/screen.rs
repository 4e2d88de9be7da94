//! Shows one turn: the reply as it arrives, the tools at work, and the questions.

use tokio::time::Instant;

use super::question::{self, OpenQuestion};
use crate::cli::CliError;
use crate::cli::markdown::Markdown;
use crate::cli::output::{BOLD, FAINT, Output, to_stderr};
use crate::client::News;
use crate::protocol::{ChatTurnView, EventKind};
use crate::visible_text::visible_line;

/// The output of one turn.
pub(super) struct Screen<'a> {
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
    /// The prompt of a question is on the screen, and the cursor behind it.
    prompted: bool,
    /// Pieces that arrived while a question was open.
    held: String,
    /// The tool at work, and since when.
    tool: Option<(String, Instant)>,
}

impl<'a> Screen<'a> {
    pub(super) fn new(out: &'a Output, interactive: bool) -> Screen<'a> {
        let markdown = interactive.then(|| Markdown::new(out.width(), out.has_colour()));
        Screen {
            out,
            markdown,
            turn: None,
            shown: String::new(),
            lost: false,
            since: Instant::now(),
            waiting: false,
            prompted: false,
            held: String::new(),
            tool: None,
        }
    }

    /// Shows an event. Adds questions to `asked`, and removes those that are closed.
    pub(super) fn handle(
        &mut self,
        news: &News,
        asked: &mut Vec<OpenQuestion>,
    ) -> Result<(), CliError> {
        match news {
            News::Missed(_) => self.lost = true,
            News::Event(event) => match &event.event {
                EventKind::TurnStarted { turn, .. } => self.turn = Some(*turn),
                EventKind::TurnWaiting { holder, .. } => self.show_waiting(holder)?,
                EventKind::TurnDelta { turn, text, .. }
                    if self.turn == Some(*turn) && !self.lost =>
                {
                    self.held.push_str(text);
                }
                EventKind::TurnTool { turn, .. } if self.turn == Some(*turn) => {
                    self.show_tool(&event.event)?;
                }
                other => {
                    let width = self.markdown.is_some().then(|| self.out.width());
                    if let Some(text) = question::update(other, asked, width) {
                        self.close()?;
                        self.out.value(other)?;
                        self.out.line(self.out.styled(BOLD, &text))?;
                    } else if asked.is_empty() {
                        self.leave_prompt()?;
                    }
                }
            },
        }
        // Nothing appears behind the prompt of a question.
        if asked.is_empty() && !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            self.show(&held)?;
        }
        Ok(())
    }

    /// Shows the prompt of an open question, so that one sees that an answer is expected.
    pub(super) fn prompt_for(&mut self, asked: Option<&OpenQuestion>) -> Result<(), CliError> {
        let Some(asked) = asked.filter(|_| self.markdown.is_some() && !self.prompted) else {
            return Ok(());
        };
        self.clear_waiting()?;
        self.prompted = true;
        self.out.ask(&self.out.styled(BOLD, &asked.prompt))
    }

    /// The person has ended the row of the prompt.
    pub(super) fn answered(&mut self) {
        self.prompted = false;
    }

    /// Ends the row of a prompt that nobody answers here.
    pub(super) fn leave_prompt(&mut self) -> Result<(), CliError> {
        match std::mem::take(&mut self.prompted) {
            true => self.out.raw("\n"),
            false => Ok(()),
        }
    }

    /// Shows a tool in one row when it has ended. Until then, the waiting line names it.
    fn show_tool(&mut self, event: &EventKind) -> Result<(), CliError> {
        let EventKind::TurnTool {
            name,
            what,
            state,
            seconds,
            ..
        } = event
        else {
            return Ok(());
        };
        if self.markdown.is_none() {
            return Ok(());
        }
        let subject = visible_line(format!("{name} {what}").trim()).into_owned();
        if state == "running" {
            if !self.prompted {
                self.close()?;
            }
            self.tool = Some((subject, Instant::now()));
            return Ok(());
        }
        self.tool = None;
        self.close()?;
        let took = seconds.map(|s| format!(" ({})", duration(s)));
        let (mark, failed) = match state.as_str() {
            "failed" => ("✗", " failed"),
            _ => ("·", ""),
        };
        let rest = format!("{failed}{}", took.unwrap_or_default());
        let room = self.out.width().saturating_sub(rest.chars().count() + 3);
        let subject = shortened(&subject, room);
        let row = format!("{mark} {subject}{rest}");
        self.out.line(self.out.styled(FAINT, &row))
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
    pub(super) fn tick(&mut self) -> Result<(), CliError> {
        let seconds = self.since.elapsed().as_secs();
        let is_silent = self.shown.is_empty() || self.tool.is_some();
        if self.markdown.is_none() || !is_silent || seconds == 0 || self.prompted {
            return Ok(());
        }
        let text = match &self.tool {
            None => format!("… {seconds} s (Ctrl-C stops)"),
            Some((subject, since)) => {
                let rest = format!(" {} s (Ctrl-C stops)", since.elapsed().as_secs());
                let room = self.out.width().saturating_sub(rest.chars().count() + 3);
                format!("… {}{rest}", shortened(subject, room))
            }
        };
        self.clear_waiting()?;
        self.waiting = true;
        self.out.passing(&self.out.styled(FAINT, &text))
    }

    fn clear_waiting(&mut self) -> Result<(), CliError> {
        if std::mem::take(&mut self.waiting) {
            self.out.erase_passing()?;
        }
        Ok(())
    }

    /// Leaves the cursor at the beginning of a line.
    pub(super) fn close(&mut self) -> Result<(), CliError> {
        self.leave_prompt()?;
        self.clear_waiting()?;
        match &mut self.markdown {
            Some(markdown) => self.out.raw(&markdown.finish()),
            None => Ok(()),
        }
    }

    pub(super) fn finish(mut self, turn: &ChatTurnView) -> Result<(), CliError> {
        self.leave_prompt()?;
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

fn duration(seconds: f64) -> String {
    match seconds {
        short if short < 10.0 => format!("{short:.1} s"),
        long => format!("{long:.0} s"),
    }
}

fn shortened(text: &str, room: usize) -> String {
    match text.chars().count() > room {
        true => text
            .chars()
            .take(room.saturating_sub(1))
            .chain(['…'])
            .collect(),
        false => text.to_owned(),
    }
}
