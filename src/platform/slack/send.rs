//! Sends messages, edits, reactions and the status line to Slack.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use slack_morphism::prelude::{
    SlackActionsBlock, SlackApiAssistantThreadsSetStatusRequest, SlackApiChatDeleteRequest,
    SlackApiChatPostEphemeralRequest, SlackApiChatPostMessageRequest, SlackApiChatUpdateRequest,
    SlackApiReactionsAddRequest, SlackBlock, SlackBlockButtonElement, SlackBlockMarkDownText,
    SlackMessageContent, SlackSectionBlock,
};
use tokio::time::Instant;

use super::address::{is_person, is_ts};
use super::failure::Failure;
use super::format::{sections, text};
use super::marks::{DELIVERY, metadata};
use super::scopes::REACTIONS;
use super::{NAME, Slack};
use crate::domain::{Button, ChatType, Source};
use crate::platform::{OutboundMessage, PlatformError, Priority};

/// Begins the name of each button of ours.
pub(super) const ACTION: &str = "hermesd:";
const LONGEST_LABEL: usize = 75;
const LONGEST_DATA: usize = 2000;
const MOST_BUTTONS: usize = 25;
/// The most sections of a message with buttons. Slack allows fifty blocks.
const MOST_SECTIONS: usize = 40;
const EYES: &str = "eyes";
/// What stands behind the bot's name while it writes.
const WRITING: &str = "is writing…";
/// Slack allows about fifty edits in a minute in the whole workspace. Previews leave some of them to replies.
const PREVIEWS: usize = 40;
const PREVIEW_WINDOW: Duration = Duration::from_secs(60);

/// Features that a missing scope switches off until the next start.
pub(super) struct Switches {
    pub(super) reactions: AtomicBool,
    pub(super) status: AtomicBool,
}

impl Default for Switches {
    fn default() -> Switches {
        Switches {
            reactions: AtomicBool::new(true),
            status: AtomicBool::new(true),
        }
    }
}

/// The edits of previews in the last minute.
#[derive(Default)]
pub(super) struct PreviewBudget {
    edits: Mutex<VecDeque<Instant>>,
}

impl PreviewBudget {
    /// Whether there is room for another one. Counts it.
    fn take(&self) -> bool {
        let mut edits = self.edits.lock().unwrap_or_else(|p| p.into_inner());
        while edits
            .front()
            .is_some_and(|at| at.elapsed() >= PREVIEW_WINDOW)
        {
            edits.pop_front();
        }
        let has_room = edits.len() < PREVIEWS;
        if has_room {
            edits.push_back(Instant::now());
        }
        has_room
    }
}

pub(super) fn channel_of(to: &Source) -> String {
    to.chat_id.clone().unwrap_or_default()
}

/// The blocks of a message with buttons. Leaves out buttons that Slack would refuse: the text names them too.
fn blocks(markdown: &str, mention: &str, buttons: &[Button]) -> Vec<SlackBlock> {
    let mut blocks = Vec::new();
    for (n, section) in sections(markdown)
        .into_iter()
        .take(MOST_SECTIONS)
        .enumerate()
    {
        let section = match n {
            0 => format!("{mention}{section}"),
            _ => section,
        };
        let words = SlackBlockMarkDownText::new(section);
        let section = SlackSectionBlock::new()
            .with_text(words.into())
            .with_expand(true);
        blocks.push(section.into());
    }
    let fits = |button: &&Button| !button.label.is_empty() && button.data.len() <= LONGEST_DATA;
    let fitting = buttons.iter().filter(fits).take(MOST_BUTTONS).enumerate();
    let elements: Vec<_> = fitting
        .map(|(n, button)| {
            let label: String = button.label.chars().take(LONGEST_LABEL).collect();
            SlackBlockButtonElement::new(label.into())
                .with_action_id(format!("{ACTION}{n}").into())
                .with_value(button.data.clone())
                .into()
        })
        .collect();
    if !elements.is_empty() {
        blocks.push(SlackActionsBlock::new(elements).into());
    }
    blocks
}

/// The text and the blocks of a message. Only the person whom it is for is notified.
pub(super) fn content(what: &OutboundMessage<'_>) -> SlackMessageContent {
    let mention = match what.notifies.filter(|id| is_person(id)) {
        Some(id) => format!("<@{id}> "),
        None => String::new(),
    };
    let content = SlackMessageContent::new().with_text(format!("{mention}{}", text(what.text)));
    match what.buttons.is_empty() {
        true => content,
        false => content.with_blocks(blocks(what.text, &mention, what.buttons)),
    }
}

impl Slack {
    pub(super) async fn post(
        &self,
        to: &Source,
        what: OutboundMessage<'_>,
        send_key: &str,
    ) -> Result<String, PlatformError> {
        if let Some(path) = what.file {
            return self.share(to, &what, path).await;
        }
        let is_preview = what.priority == Priority::Preview;
        if let Some(command) = what.answers.filter(|_| !is_preview)
            && let Some(id) = self.answer_command(command, &content(&what)).await?
        {
            return Ok(id);
        }
        if let Some(command) = what.answers.filter(|_| !is_preview)
            && self.is_forgotten_command(command, to)
        {
            return Ok(self.whisper(to, content(&what)).await?);
        }
        let mark = self.mark(send_key).await?;
        let channel = channel_of(to);
        if let Some(since) = what.first_tried {
            let thread = to.thread_id.as_deref();
            match self.find_marked(&channel, thread, &mark, since).await {
                Ok(Some(ts)) => return Ok(ts),
                Ok(None) => {}
                // A doubled message is better than a lost one.
                Err(failure) if failure.is("missing_scope") => {
                    tracing::warn!(
                        ?failure,
                        platform = NAME,
                        "message sent again without a look for it"
                    );
                }
                Err(failure) => return Err(failure.into()),
            }
        }
        let content = content(&what).with_metadata(metadata(DELIVERY, &[("id", &mark)]));
        let posted = self.post_content(to, content.clone()).await;
        match (posted, what.answers) {
            // A command can be answered where the bot is no member.
            (Err(failure), Some(command))
                if failure.is("not_in_channel") || failure.is("channel_not_found") =>
            {
                match self.answer_in_any_case(command, &content).await? {
                    Some(id) => Ok(id),
                    None => Err(failure.into()),
                }
            }
            (posted, _) => Ok(posted?),
        }
    }

    /// Posts a message and returns its time. Slack posts a reply to a thread that is gone in the channel. There it must
    /// not stay.
    async fn post_content(
        &self,
        to: &Source,
        content: SlackMessageContent,
    ) -> Result<String, Failure> {
        let channel = channel_of(to);
        let mut request = SlackApiChatPostMessageRequest::new(channel.clone().into(), content)
            .with_unfurl_links(false)
            .with_unfurl_media(false);
        request.thread_ts = to.thread_id.clone().map(Into::into);
        let answer = self.api.call("chat.postMessage", &request).await?;
        let ts = answer["ts"].as_str().unwrap_or_default().to_owned();
        let message = &answer["message"];
        if to.thread_id.is_some() && message.is_object() && message.get("thread_ts").is_none() {
            self.delete(&channel, &ts).await;
            return Err(Failure::gone("thread_not_found"));
        }
        Ok(ts)
    }

    /// Answers a command whose address is gone, in a channel with other people. Only its person may see the answer.
    async fn whisper(&self, to: &Source, content: SlackMessageContent) -> Result<String, Failure> {
        let user = to.user_id.clone().unwrap_or_default();
        let request =
            SlackApiChatPostEphemeralRequest::new(channel_of(to).into(), user.into(), content);
        let answer = self.api.call("chat.postEphemeral", &request).await?;
        Ok(format!(
            "whisper:{}",
            answer["message_ts"].as_str().unwrap_or_default()
        ))
    }

    async fn delete(&self, channel: &str, ts: &str) {
        let request = SlackApiChatDeleteRequest::new(channel.into(), ts.into());
        if let Err(failure) = self.api.call("chat.delete", &request).await {
            tracing::warn!(
                ?failure,
                platform = NAME,
                "message of a deleted thread stays in the channel"
            );
        }
    }

    pub(super) async fn change(
        &self,
        to: &Source,
        message_id: &str,
        what: OutboundMessage<'_>,
    ) -> Result<(), PlatformError> {
        let mut content = content(&what);
        if self.replace_response(message_id, &content).await? {
            return Ok(());
        }
        if !is_ts(message_id) {
            return Err(Failure::gone("message_not_found").into());
        }
        if what.priority == Priority::Preview && !self.previews.take() {
            return Err(PlatformError::transient(
                "the previews of this minute are used up",
            ));
        }
        // Without this, buttons that are no longer wanted would stay.
        content.blocks.get_or_insert_default();
        let ts = message_id.into();
        let request = SlackApiChatUpdateRequest::new(channel_of(to).into(), content, ts);
        self.api.call("chat.update", &request).await?;
        Ok(())
    }

    /// The status line is in threads of private chats only. Elsewhere everybody would see it.
    pub(super) async fn show_status(&self, to: &Source) -> Result<(), Failure> {
        let thread = to.thread_id.as_deref().filter(|ts| is_ts(ts));
        let (Some(thread), ChatType::Dm) = (thread, to.chat_type) else {
            return Ok(());
        };
        if !self.switches.status.load(Ordering::Relaxed) {
            return Ok(());
        }
        let request = SlackApiAssistantThreadsSetStatusRequest::new(
            channel_of(to).into(),
            WRITING.into(),
            thread.into(),
        );
        let shown = self.api.call("assistant.threads.setStatus", &request).await;
        switch_off(&self.switches.status, &shown);
        shown.map(drop)
    }

    pub(super) async fn react(&self, source: &Source, message_id: &str) -> Result<(), Failure> {
        let is_on = self.switches.reactions.load(Ordering::Relaxed) && self.has_scope(REACTIONS);
        if !is_ts(message_id) || !is_on {
            return Ok(());
        }
        let request = SlackApiReactionsAddRequest::new(
            channel_of(source).into(),
            EYES.into(),
            message_id.into(),
        );
        let reacted = self.api.call("reactions.add", &request).await;
        switch_off(&self.switches.reactions, &reacted);
        match reacted {
            Err(failure) if !failure.is("already_reacted") => Err(failure),
            _ => Ok(()),
        }
    }

    /// Answers a command or a press by its address. With buttons, they are in the answer.
    pub(super) async fn respond(
        &self,
        url: &str,
        content: &SlackMessageContent,
        kind: serde_json::Value,
    ) -> Result<(), Failure> {
        let mut body = kind;
        body["text"] = json!(content.text);
        if let Some(blocks) = &content.blocks {
            body["blocks"] = json!(blocks);
        }
        self.api.respond(url, &body).await
    }
}

/// A missing scope is not asked for again.
fn switch_off<T>(switch: &AtomicBool, outcome: &Result<T, Failure>) {
    if let Err(failure) = outcome
        && failure.is("missing_scope")
    {
        switch.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, buttons: &[Button], notifies: Option<&str>) -> serde_json::Value {
        let what = OutboundMessage {
            buttons,
            notifies,
            ..text.into()
        };
        json!(content(&what))
    }

    #[test]
    fn only_the_named_person_is_notified() {
        let message = shown("hello <!channel> <@U2>", &[], Some("U1A"));
        assert_eq!(message["text"], "<@U1A> hello &lt;!channel&gt; &lt;@U2&gt;");
        assert!(message.get("blocks").is_none());
        assert_eq!(shown("hello", &[], Some("<!here>"))["text"], "hello");
    }

    #[test]
    fn buttons_are_below_the_text_and_fit() {
        let button = |n: usize| Button {
            label: "x".repeat(100),
            data: format!("choice:{n}"),
        };
        let buttons: Vec<Button> = (0..30).map(button).collect();
        let message = shown("**which?**", &buttons, Some("U1A"));
        assert_eq!(message["blocks"][0]["text"]["text"], "<@U1A> *which?*");
        let elements = message["blocks"][1]["elements"].as_array().unwrap();
        assert_eq!(elements.len(), 25);
        assert_eq!(elements[24]["value"], "choice:24");
        assert_eq!(elements[24]["action_id"], "hermesd:24");
        assert_eq!(elements[0]["text"]["text"].as_str().unwrap().len(), 75);
    }

    #[tokio::test(start_paused = true)]
    async fn previews_leave_room_for_replies() {
        let budget = PreviewBudget::default();
        let taken = (0..60).filter(|_| budget.take()).count();
        assert_eq!(taken, PREVIEWS);
        tokio::time::advance(PREVIEW_WINDOW).await;
        assert!(budget.take());
    }
}
