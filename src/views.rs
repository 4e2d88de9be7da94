//! Converts domain types to wire types, for the daemon, and for hermesctl when it works without a daemon.

use serde_json::Value;

use crate::domain::Handoff;
use crate::domain::QuestionPart;
use crate::domain::Session;
use crate::domain::ThreadOutcome;
use crate::domain::announced_handoff;
use crate::domain::transcript::{Content, Message, Role, Transcript};
use crate::events::{Event, PublishedEvent};
use crate::inbound::hermes_pairing::HermesPerson;
use crate::platform::{Finding, PlatformStatus};
use crate::protocol::{
    EventKind, EventView, FindingView, HandoffView, HitView, LocalMessageView, LocalThreadView,
    MAX_FRAME, MessageView, PersonView, PlatformView, SessionView, StageView, SubjectView,
    TranscriptView, TranscriptWish,
};
use crate::sessions::ChosenBy;
use crate::store::{Hit, LocalMessage, LocalThread, Person};

/// The size limit of a page of a transcript. It fits into a frame with room to spare.
const PAGE_BYTES: usize = MAX_FRAME / 2;
/// The size limit of one message. A longer one is cut, and says so.
const MESSAGE_BYTES: usize = MAX_FRAME / 8;
/// How many characters of a note a listing shows.
const LISTED_NOTE: usize = 200;

pub fn session(session: &Session) -> SessionView {
    let s = session.clone();
    SessionView {
        id: s.id,
        title: s.title,
        first_words: s.first_words,
        source: s.source,
        model: s.model,
        cwd: s.cwd,
        started_at: s.started_at,
        ended_at: s.ended_at,
        end_reason: s.end_reason,
        message_count: s.message_count,
        session_key: s.session_key,
        chat_id: s.chat_id,
        thread_id: s.thread_id,
        handoff_state: s.handoff_state,
        handoff_platform: s.handoff_platform,
        handoff_error: s.handoff_error,
    }
}

/// The `display_kind` of the message that announces a handoff.
const HANDOFF_KIND: &str = "handoff";

/// The kind of a message in the role of the user that announces a handoff.
fn announced(message: &Message) -> Option<String> {
    let is_notice = message.role == Role::User && announced_handoff(&message.plain()).is_some();
    is_notice.then(|| HANDOFF_KIND.to_owned())
}

pub fn hit(hit: &Hit) -> HitView {
    HitView {
        session: hit.session_id.clone(),
        title: hit.title.clone(),
        source: hit.source.clone(),
        message: hit.message_id,
        role: hit.role.clone(),
        display_kind: hit.display_kind.clone(),
        timestamp: hit.timestamp,
        snippet: hit.snippet.clone(),
    }
}

/// The newest of the requested messages that fit into a frame.
pub fn transcript(of: &Session, transcript: &Transcript, wish: &TranscriptWish) -> TranscriptView {
    let (last, before) = (wish.last, wish.before);
    let mut messages = Vec::new();
    let mut bytes = 0;
    let mut earlier = false;
    let wanted = transcript
        .messages
        .iter()
        .rev()
        .filter(|m| before.is_none_or(|before| m.id < before))
        .filter(|m| wish.hidden || !m.is_hidden());
    for one in wanted {
        let view = message(one);
        bytes += serde_json::to_string(&view).map_or(0, |json| json.len());
        if last.is_some_and(|last| messages.len() >= last)
            || (bytes > PAGE_BYTES && !messages.is_empty())
        {
            earlier = true;
            break;
        }
        messages.push(view);
    }
    messages.reverse();
    TranscriptView {
        session: session(of),
        messages,
        earlier,
    }
}

/// The whole transcript. It may be too large for the socket.
pub fn whole_transcript(of: &Session, transcript: &Transcript) -> TranscriptView {
    TranscriptView {
        session: session(of),
        messages: transcript.messages.iter().map(whole_message).collect(),
        earlier: false,
    }
}

/// A message, cut to fit into a frame.
fn message(message: &Message) -> MessageView {
    let mut view = whole_message(message);
    match &message.content {
        Some(Content::Text(text)) => view.content = Value::from(shortened(text)),
        Some(parts @ Content::Parts(_)) if view.content.to_string().len() > MESSAGE_BYTES => {
            view.content = Value::from(shortened(&parts.plain()));
        }
        _ => {}
    }
    if Value::from(view.tool_calls.clone()).to_string().len() > MESSAGE_BYTES {
        view.tool_calls = Vec::new();
    }
    view
}

fn whole_message(message: &Message) -> MessageView {
    let content = match &message.content {
        None => Value::Null,
        Some(Content::Text(text)) => Value::from(text.as_str()),
        Some(Content::Parts(list)) => Value::from(list.clone()),
    };
    MessageView {
        id: message.id,
        role: message.role.as_str().to_owned(),
        content,
        tool_calls: message.tool_calls.clone(),
        tool_call_id: message.tool_call_id.clone(),
        tool_name: message.tool_name.clone(),
        timestamp: message.timestamp,
        display_kind: message.display_kind.clone().or_else(|| announced(message)),
        hidden: message.is_hidden(),
    }
}

pub fn shortened(text: &str) -> String {
    if text.len() <= MESSAGE_BYTES {
        return text.to_owned();
    }
    let cut = text.floor_char_boundary(MESSAGE_BYTES);
    format!("{}… ({} bytes more)", &text[..cut], text.len() - cut)
}

/// The parts that fit into a frame together. A part that is cut says how much is missing.
fn subject(parts: &[QuestionPart]) -> Vec<SubjectView> {
    let mut room = MESSAGE_BYTES;
    let mut views: Vec<SubjectView> = Vec::new();
    for part in parts {
        let cut = part.text.floor_char_boundary(room);
        let text = match part.text.len() - cut {
            0 => part.text.clone(),
            more => format!("{}… ({more} bytes more)", &part.text[..cut]),
        };
        room -= cut;
        views.push(SubjectView {
            label: shortened(&part.label),
            text,
        });
        if room == 0 {
            break;
        }
    }
    views
}

/// The answer to a request. It also says how the session was chosen, if the request did not name it.
pub fn requested_handoff(handoff: &Handoff, chosen_by: Option<ChosenBy>) -> HandoffView {
    HandoffView {
        chosen_by: chosen_by.map(|by| by.as_str().to_owned()),
        ..self::handoff(handoff)
    }
}

pub fn handoff(handoff: &Handoff) -> HandoffView {
    let h = handoff.clone();
    let (thread, thread_title, no_thread) = match h.thread {
        Some(ThreadOutcome::Thread { id, title, .. }) => (Some(id), Some(title), None),
        Some(ThreadOutcome::Chat { reason, .. }) => (None, None, Some(reason)),
        None => (None, None, None),
    };
    HandoffView {
        id: h.id,
        session: h.session_id,
        chosen_by: None,
        platform: h.platform,
        note: h.note,
        via: h.via.as_str().to_owned(),
        state: h.state.as_str().to_owned(),
        stage: h.stage.map(|s| s.as_str().to_owned()),
        error: h.error,
        after_turn: h.after_turn,
        requested_at: h.requested_at,
        ended_at: h.ended_at,
        home_channel: h.home.map(|home| home.chat_id),
        thread,
        thread_title,
        no_thread,
        session_key: h.session_key,
        reply: h.reply,
        stages: h
            .stages
            .iter()
            .map(|(stage, at)| StageView {
                stage: stage.as_str().to_owned(),
                at: *at,
            })
            .collect(),
    }
}

pub fn platform(status: PlatformStatus) -> PlatformView {
    PlatformView {
        name: status.name,
        state: status.state.as_str().to_owned(),
        detail: status.detail,
        home_channel: status.home.map(|home| home.name.unwrap_or(home.chat_id)),
        owner: status.owner,
        configured: status.configured,
        since: status.since,
    }
}

pub fn local_thread(thread: LocalThread) -> LocalThreadView {
    LocalThreadView {
        id: thread.id,
        chat: thread.chat_id,
        title: thread.title,
        created_at: thread.created_at,
    }
}

/// The newest messages that fit into a frame, in order.
pub fn local_messages(messages: Vec<LocalMessage>) -> Vec<LocalMessageView> {
    let mut bytes = 0;
    let fits = |view: &LocalMessageView| {
        bytes += view.text.len() + 128;
        bytes <= PAGE_BYTES
    };
    let mut views: Vec<_> = messages
        .into_iter()
        .rev()
        .map(local_message)
        .take_while(fits)
        .collect();
    views.reverse();
    views
}

/// One row of a listing, without the reply and with a shortened note.
pub fn listed_handoff(handoff_: &Handoff) -> HandoffView {
    let mut view = handoff(&Handoff {
        reply: None,
        ..handoff_.clone()
    });
    view.note = view
        .note
        .map(|note| note.chars().take(LISTED_NOTE).collect());
    view
}

pub fn local_message(message: LocalMessage) -> LocalMessageView {
    LocalMessageView {
        id: message.id,
        author: message.author,
        text: shortened(&message.text),
        at: message.at,
    }
}

pub fn event(published: &PublishedEvent) -> EventView {
    let event = match published.event.clone() {
        Event::HandoffRequested {
            id,
            session_id,
            platform,
        } => EventKind::HandoffRequested {
            id,
            session: session_id,
            platform,
        },
        Event::HandoffStage {
            id,
            session_id,
            platform,
            stage,
            no_thread,
        } => EventKind::HandoffStage {
            id,
            session: session_id,
            platform,
            stage: stage.as_str().to_owned(),
            no_thread,
        },
        Event::HandoffWaiting {
            id,
            session_id,
            platform,
            reason,
        } => EventKind::HandoffWaiting {
            id,
            session: session_id,
            platform,
            reason,
        },
        Event::HandoffEnded {
            id,
            session_id,
            platform,
            state,
            error,
        } => EventKind::HandoffEnded {
            id,
            session: session_id,
            platform,
            state: state.as_str().to_owned(),
            error,
        },
        Event::TurnWaiting {
            session_id,
            holder,
            waited,
        } => EventKind::TurnWaiting {
            session: session_id,
            holder,
            waited,
        },
        Event::TurnStarted { session_id, turn } => EventKind::TurnStarted {
            session: session_id,
            turn,
        },
        Event::TurnDelta {
            session_id,
            turn,
            text,
        } => EventKind::TurnDelta {
            session: session_id,
            turn,
            text,
        },
        Event::TurnTool {
            session_id,
            turn,
            report,
        } => EventKind::TurnTool {
            session: session_id,
            turn,
            call: report.id,
            name: report.name,
            what: report.what,
            state: report.state.as_str().to_owned(),
            seconds: report.took,
        },
        Event::TurnEnded {
            session_id,
            turn,
            error,
        } => EventKind::TurnEnded {
            session: session_id,
            turn,
            error,
        },
        Event::TurnQuestion {
            session_id,
            turn,
            id,
            question,
            place,
            whole,
        } => EventKind::TurnQuestion {
            session: session_id,
            turn,
            text: shortened(&question.text()),
            choices: question.choices.clone(),
            open: question.open,
            question: id,
            ask: shortened(&question.ask),
            subject: subject(&question.subject),
            place,
            whole: whole.map(|path| path.display().to_string()),
        },
        Event::TurnQuestionClosed {
            session_id,
            turn,
            id,
            outcome,
            answer,
            place,
        } => EventKind::TurnQuestionClosed {
            session: session_id,
            turn,
            question: id,
            outcome: outcome.to_owned(),
            answer: answer.map(|answer| shortened(&answer)),
            place,
        },
        Event::SessionStarted {
            session_id,
            platform,
            model,
            resumed,
        } => EventKind::SessionStarted {
            session: session_id,
            platform,
            model,
            resumed,
        },
        Event::SessionReplaced {
            session_id,
            platform,
            by,
        } => EventKind::SessionReplaced {
            session: session_id,
            platform,
            by,
        },
        Event::SessionMoved { session_id, to } => EventKind::SessionMoved {
            session: session_id,
            to,
        },
        Event::SessionReleased {
            session_id,
            platform,
            chat_id,
            reason,
            told,
        } => EventKind::SessionReleased {
            session: session_id,
            platform,
            chat: chat_id,
            reason: reason.to_owned(),
            told,
        },
        Event::SessionEnded {
            session_id,
            platform,
            model,
            interrupted,
        } => EventKind::SessionEnded {
            session: session_id,
            platform,
            model,
            interrupted,
        },
        Event::PlatformChanged {
            platform,
            state,
            detail,
        } => EventKind::PlatformChanged {
            platform,
            state: state.to_owned(),
            detail,
        },
        Event::LocalMessage {
            id,
            chat_id,
            thread_id,
            author,
            text,
            ..
        } => EventKind::LocalMessage {
            id,
            chat: chat_id,
            thread: thread_id,
            author,
            text: shortened(&text),
        },
    };
    EventView {
        seq: published.seq,
        at: published.at,
        event,
    }
}

pub fn person(person: Person) -> PersonView {
    PersonView {
        platform: person.platform,
        user: person.user_id,
        name: person.user_name,
        asked_at: person.asked_at,
        approved_at: person.approved_at,
        by: "hermesd".into(),
    }
}

pub fn hermes_person(person: HermesPerson) -> PersonView {
    PersonView {
        platform: person.platform,
        user: person.user_id,
        name: person.user_name,
        asked_at: person.approved_at,
        approved_at: Some(person.approved_at),
        by: "hermes".into(),
    }
}

pub fn finding(finding: Finding) -> FindingView {
    FindingView {
        what: finding.what,
        grade: finding.grade.as_str().to_owned(),
        detail: finding.detail,
        remedy: finding.remedy,
    }
}
