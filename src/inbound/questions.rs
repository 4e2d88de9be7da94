//! Accepts answers from chats to an agent's questions: decides who may answer, and what counts as an answer.

use std::sync::Arc;
use std::time::Duration;

use crate::delivery::CHOICE;
use crate::domain::{ChatType, KeyRules, Source, session_key};
use crate::inbound::{Inner, Rank, Right, accept};
use crate::platform::{ButtonPress, Platform};
use crate::store::retry_while_busy;
use crate::store::{Inbound, StoreError};
use crate::turn::questions::{AnswerFit, Asking, HeardInChat, Pressed, QuestionId};
use crate::visible_text::markdown;

/// How a message relates to open questions.
pub(super) enum Matched {
    Answer,
    /// It goes to the queue like every message. The note is for the person.
    Message(Option<&'static str>),
}

/// How long a message waits until the send of a question ends. All messages of the platform wait with it.
const UNTIL_SENT: Duration = Duration::from_secs(2);

const STILL_OPEN: &str =
    "The question above is still open. Your message waits until it is answered. /stop ends it.";
const NOT_YOURS: &str =
    "The question above is for another person. Your message waits until it is answered.";

/// The note for a person whose message is no answer to an open question, which may be theirs to answer.
fn note_text(theirs: bool) -> &'static str {
    match theirs {
        true => STILL_OPEN,
        false => NOT_YOURS,
    }
}

/// The rights of a person with regard to questions.
#[derive(Debug, Clone, Copy)]
struct Answerer {
    /// May answer any question.
    is_owner: bool,
    /// May approve actions of the agent in their own turn.
    approves: bool,
}

impl Answerer {
    /// Whether this person may answer the question.
    fn fit(self, source: &Source, asking: &Asking<'_>, keys: &KeyRules) -> AnswerFit {
        let own = is_asker(source, asking.chat, keys) && (self.approves || !asking.is_approval);
        match self.is_owner || own {
            true => AnswerFit::Yes,
            false => AnswerFit::NotTheirs,
        }
    }
}

impl Inner {
    /// Passes an answer to the open question of this chat. It must not wait in the queue behind the turn that asks.
    pub(super) async fn match_answer(
        self: &Arc<Self>,
        inbound: &Inbound,
        at: f64,
    ) -> Result<Matched, StoreError> {
        if self.turns.questions.is_empty() {
            return Ok(Matched::Message(None));
        }
        let answerer = self.answerer(&inbound.source).await?;
        let words = accept::unsigned(inbound);
        let questions = &self.turns.questions;
        let is_here = |chat: &Source| self.is_chat_of(inbound, chat);
        // A quick message may arrive before the id of the question's message, which shows the order of the two.
        if questions.is_answer_in(words, is_here) {
            let _ = tokio::time::timeout(UNTIL_SENT, questions.sent_in(is_here)).await;
        } else if questions.is_sending_in(is_here) {
            self.note_when_sent(inbound, at, answerer);
        }
        match self.hear_in_chat(inbound, at, answerer) {
            HeardInChat::Answered => {
                let store = || self.store.dismiss_inbound(inbound.id, Vec::new());
                retry_while_busy(&self.stop, store).await?;
                Ok(Matched::Answer)
            }
            HeardInChat::Message(note) => Ok(Matched::Message(note.map(note_text))),
        }
    }

    fn is_chat_of(&self, inbound: &Inbound, chat: &Source) -> bool {
        session_key(chat, &self.keys) == inbound.session_key
    }

    fn hear_in_chat(&self, inbound: &Inbound, at: f64, answerer: Answerer) -> HeardInChat {
        let source = &inbound.source;
        let platform = self.platforms.adapter(&source.platform);
        let fits = |asking: &Asking<'_>| {
            let here = self.is_chat_of(inbound, asking.chat);
            match here && !is_before(platform.as_deref(), inbound, at, asking) {
                true => answerer.fit(source, asking, &self.keys),
                false => AnswerFit::No,
            }
        };
        let words = accept::unsigned(inbound);
        (self.turns.questions).hear_in_chat(words, &source.platform, fits)
    }

    /// Sends the note about a message that is no answer, when the order of the message and the question is known.
    /// Other messages do not wait for that.
    fn note_when_sent(self: &Arc<Self>, inbound: &Inbound, at: f64, answerer: Answerer) {
        let (inner, inbound) = (self.clone(), inbound.clone());
        self.tracker.spawn(async move {
            let is_here = |chat: &Source| inner.is_chat_of(&inbound, chat);
            inner.turns.questions.sent_in(is_here).await;
            if let HeardInChat::Message(Some(theirs)) = inner.hear_in_chat(&inbound, at, answerer) {
                inner.note(&inbound, note_text(theirs));
            }
        });
    }

    /// Sends a note during the chat's turn. Best effort: it is not retried.
    pub(super) fn note(self: &Arc<Self>, inbound: &Inbound, note: &'static str) {
        let Some(platform) = self.platforms.adapter(&inbound.source.platform) else {
            return;
        };
        let (source, key) = (inbound.source.clone(), format!("note:{}", inbound.id));
        self.tracker.spawn(async move {
            if let Err(error) = platform.send(&source, note.into(), &key).await {
                tracing::debug!(%error, "note about an open question not sent");
            }
        });
    }

    /// Accepts a press of a question's button. It counts if the message shows the question and the person may answer
    /// it.
    pub(super) fn accept_choice(self: &Arc<Self>, press: ButtonPress) {
        let inner = self.clone();
        // A person may press the button before the id of the message is known. Other messages do not wait for that.
        self.tracker.spawn(async move {
            if let Some((id, _)) = choice(&press.data) {
                inner.turns.questions.sent(id).await;
            }
            if let Err(error) = inner.judge_press(press).await {
                tracing::warn!(%error, "button press not processed");
            }
        });
    }

    async fn judge_press(self: &Arc<Self>, press: ButtonPress) -> Result<(), StoreError> {
        let answerer = self.answerer(&presser(&press.source)).await?;
        let fits = |asking: &Asking<'_>| {
            let message = asking.shown.contains(&press.message_id);
            match is_same_chat(&press.source, asking.chat) && message {
                true => answerer.fit(&press.source, asking, &self.keys),
                false => AnswerFit::No,
            }
        };
        let questions = &self.turns.questions;
        let pressed = match choice(&press.data) {
            Some((id, at)) => questions.choose(id, at, &press.source.platform, fits),
            None => Pressed::NotOpen,
        };
        match pressed {
            // The turn that asked removes the buttons.
            Pressed::Chosen(choice) => self.acknowledge_button(press, &choice, None),
            Pressed::NotTheirs => {
                self.acknowledge_button(press, "This question is not for you.", None)
            }
            Pressed::NotOpen => {
                // The question is of an earlier daemon, or a program made up the data. The edit must not remove the
                // buttons of a question that is open.
                let shows = |asking: &Asking<'_>| {
                    let here = is_same_chat(&press.source, asking.chat);
                    here && asking.shown.contains(&press.message_id)
                };
                let own = answerer.is_owner || press.source.chat_type == ChatType::Dm;
                let text = (own && !questions.any(shows))
                    .then(|| format!("{}\n\n(no longer open)", markdown(&press.text)));
                self.acknowledge_button(press, "That question is no longer open.", text);
            }
        }
        Ok(())
    }

    async fn answerer(&self, source: &Source) -> Result<Answerer, StoreError> {
        let rules = self.rules.get();
        let rank = || async { rules.access.rank(&self.store, source) };
        let rank = retry_while_busy(&self.stop, rank).await?;
        let may = |rank| rules.access.may(&source.platform, rank, Right::Approvals);
        Ok(Answerer {
            is_owner: rank == Some(Rank::Owner),
            approves: rank.is_some_and(may),
        })
    }
}

/// The person who presses a button. Posts of a channel have no author, but presses do.
fn presser(source: &Source) -> Source {
    let mut person = source.clone();
    if person.chat_type == ChatType::Channel {
        person.chat_type = ChatType::Group;
    }
    person
}

fn is_same_chat(one: &Source, other: &Source) -> bool {
    one.platform == other.platform
        && one.chat_id == other.chat_id
        && one.thread_id == other.thread_id
}

/// Whether this is the person whose turn asks. A private chat without ids has only one person. On some platforms
/// several people share a private chat, and each of them has an id.
fn is_asker(source: &Source, asker: &Source, keys: &KeyRules) -> bool {
    let has_id = |source: &Source| source.user_id.is_some() || source.user_id_alt.is_some();
    if asker.chat_type == ChatType::Dm && !(has_id(asker) && has_id(source)) {
        return true;
    }
    keys.are_same_person(source, asker)
}

/// Whether a message was written before the question was shown.
fn is_before(
    platform: Option<&dyn Platform>,
    inbound: &Inbound,
    at: f64,
    asking: &Asking<'_>,
) -> bool {
    let Some(first) = asking.shown.first() else {
        return true;
    };
    let order = platform.and_then(|p| p.precedes(&inbound.message_id, first));
    // Some platforms give the time in whole seconds.
    order.unwrap_or_else(|| at < asking.shown_at.floor())
}

/// The question and the choice of a button.
fn choice(data: &str) -> Option<(QuestionId, usize)> {
    let (id, at) = data
        .strip_prefix(CHOICE)?
        .strip_prefix(':')?
        .split_once(':')?;
    Some((QuestionId::parse(id)?, at.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_asker_is_the_person_whose_turn_asks_also_where_several_share_a_private_chat() {
        let of = |platform, chat_type, user: Option<&str>, alt: Option<&str>| Source {
            user_id: user.map(str::to_owned),
            user_id_alt: alt.map(str::to_owned),
            ..Source::new(platform, chat_type, "G0MP")
        };
        let slack = |user| of("slack", ChatType::Dm, user, None);
        let group = |user, alt| of("signal", ChatType::Group, user, alt);
        let whatsapp = |user| of("whatsapp", ChatType::Group, Some(user), None);
        for (source, asker, expected) in [
            (slack(Some("U1")), slack(Some("U1")), true),
            (slack(Some("U2")), slack(Some("U1")), false),
            (slack(Some("U2")), slack(None), true),
            (
                group(Some("+1"), None),
                group(Some("+1"), Some("uuid")),
                true,
            ),
            (
                group(Some("uuid"), None),
                group(Some("+1"), Some("uuid")),
                true,
            ),
            (group(Some("+2"), None), group(Some("+1"), None), false),
            (group(None, None), group(None, None), false),
            (
                whatsapp("1555@s.whatsapp.net"),
                whatsapp("1555:3@s.whatsapp.net"),
                true,
            ),
        ] {
            let keys = KeyRules::default();
            assert_eq!(
                is_asker(&source, &asker, &keys),
                expected,
                "{source:?} {asker:?}"
            );
        }
    }
}
