//! Runs one turn, and shows it on the screen. Ctrl-C and `/stop` interrupt it.

use std::time::Duration;

use tokio::time::interval;

use super::editor::InputEvent;
use super::screen::Screen;
use super::{Chat, Next, Sent};
use crate::cli::CliError;
use crate::client::ClientError;
use crate::clock;
use crate::domain::slash_command::{self, Command, ParsedInput, Place};
use crate::protocol::{Call, ChatSay, ChatTurnView, Nothing, RpcError};

const TICK: Duration = Duration::from_secs(1);

impl Chat<'_> {
    pub(super) async fn say(&mut self, text: &str) -> Result<Next, CliError> {
        let call = ChatSay {
            text: text.to_owned(),
        };
        let backend = self.backend.clone();
        let client = backend.daemon()?;
        let sent_at = clock::now();
        let answer = client.call::<ChatTurnView>(Call::ChatSay(call));
        tokio::pin!(answer);
        let mut screen = Screen::new(self.out, self.input.is_interactive());
        let mut ticks = interval(TICK);
        let mut interrupts = 0;
        loop {
            let asked = self.asked.first().filter(|_| self.input.is_answering());
            screen.prompt_for(asked)?;
            tokio::select! {
                biased;
                news = client.news() => match news {
                    Some(news) => screen.handle(&news, &mut self.asked)?,
                    None => {
                        screen.close()?;
                        return self.reconnect_after(text, sent_at).await;
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
                        Err(ClientError::Lost) => {
                            screen.close()?;
                            return self.reconnect_after(text, sent_at).await;
                        }
                        Err(ClientError::Refused(refused)) if is_stopping(&refused) => {
                            screen.close()?;
                            // The next daemon gets the message.
                            self.queued.push_front(text.to_owned());
                            return self.reconnect().await;
                        }
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
                        self.asked.clear();
                        screen.leave_prompt()?;
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
                        screen.answered();
                        self.answer_question(line).await?;
                    }
                    // An answer needs words.
                    InputEvent::Line(line) if line.trim().is_empty() => screen.answered(),
                    // A line that was typed ahead is older than the question, so it does not answer it.
                    InputEvent::Line(line)
                    | InputEvent::TypedAhead(line) => match slash_command::read(&line, Place::Terminal) {
                        ParsedInput::Command(Command::Stop, _) => {
                            self.asked.clear();
                            screen.answered();
                            stop(client).await?;
                        }
                        ParsedInput::Command(Command::Quit, _) => {
                            screen.close()?;
                            return Ok(Next::Leave);
                        }
                        _ if line.trim().is_empty() => {}
                        _ => self.queued.push_back(line),
                    },
                    // The prompt follows.
                    InputEvent::Answering => {}
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
            && !line.trim().is_empty()
            && matches!(
                slash_command::read(line, Place::Terminal),
                ParsedInput::Words
            )
    }

    /// Sends the answer to an open question.
    pub(super) async fn answer_question(&mut self, line: String) -> Result<(), CliError> {
        let answer = ChatSay { text: line.clone() };
        let backend = self.backend.clone();
        let answered = backend
            .daemon()?
            .call::<serde_json::Value>(Call::ChatAnswer(answer));
        match answered.await {
            Ok(answered) => {
                let answered = answered["question"].as_str();
                self.asked.retain(|open| Some(open.id.as_str()) != answered);
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
            // The turn notices the loss too, and waits for the daemon.
            Err(ClientError::Lost) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

async fn stop(client: &crate::client::Client) -> Result<(), CliError> {
    match client
        .call::<serde_json::Value>(Call::ChatStop(Nothing {}))
        .await
    {
        // The turn notices the loss too, and waits for the daemon.
        Ok(_) | Err(ClientError::Lost) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn is_stopping(refused: &RpcError) -> bool {
    let kind = refused.data.as_ref().map(|data| data.kind.as_str());
    kind == Some("stopping")
}
