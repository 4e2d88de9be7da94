//! Opens threads for handoffs. A thread on Slack is a message with replies, so the adapter posts one that names the
//! session.

use slack_morphism::prelude::{
    SlackApiAssistantThreadSetTitleRequest, SlackApiChatDeleteRequest,
    SlackApiChatPostMessageRequest, SlackApiChatUpdateRequest, SlackMessageContent,
};

use super::address::is_person;
use super::failure::Failure;
use super::format::{one_line, plain};
use super::marks::{THREAD, metadata};
use super::scopes::ASSISTANT;
use super::{NAME, Slack};
use crate::clock;
use crate::domain::{ChatType, HomeChannel, Source, ThreadOutcome};
use crate::platform::{Platform, PlatformError};

const LONGEST_TITLE: usize = 150;
/// How far back the message of an earlier attempt is looked for.
const LOOKED_FOR: f64 = 86_400.0;

/// The words of the message that begins a thread.
fn words(title: &str, is_left: bool) -> String {
    let what = match is_left {
        false => "Reply in this thread to continue.",
        true => "_The session has left this thread. Say `!resume` here to bring it back._",
    };
    format!("*{}*\n{what}", plain(title))
}

fn content(title: &str, mark: &str, is_left: bool) -> SlackMessageContent {
    SlackMessageContent::new()
        .with_text(words(title, is_left))
        .with_metadata(metadata(THREAD, &[("id", mark), ("title", title)]))
}

impl Slack {
    pub(super) async fn open(
        &self,
        home: &HomeChannel,
        title: &str,
        open_key: &str,
    ) -> Result<ThreadOutcome, PlatformError> {
        let unusable = |failure| unusable(home, failure);
        let channel = self.home_channel(home).await.map_err(unusable)?;
        let title: String = title.chars().take(LONGEST_TITLE).collect();
        let mark = self.mark(&format!("open:{open_key}")).await?;
        // Where the bot cannot read, it gets no messages, so a handoff would be of no use.
        let since = clock::now() - LOOKED_FOR;
        let found = self.find_marked(&channel, None, &mark, since).await;
        let ts = match found.map_err(unusable)? {
            Some(ts) => ts,
            None => {
                let content = content(&title, &mark, false);
                let request = SlackApiChatPostMessageRequest::new(channel.clone().into(), content)
                    .with_unfurl_links(false)
                    .with_unfurl_media(false);
                let posted = self.api.call("chat.postMessage", &request).await;
                let posted = posted.map_err(unusable)?;
                posted["ts"].as_str().unwrap_or_default().to_owned()
            }
        };
        let kind = self.place(&channel, None).await.map_err(unusable)?.kind;
        if kind.chat_type() == ChatType::Dm {
            self.set_title(&channel, &ts, &title).await;
        }
        Ok(ThreadOutcome::Thread {
            id: ts,
            title,
            repeated: false,
            within: Some(kind.chat_type()),
        })
    }

    /// The channel of a home. The id of a person means the private chat with them.
    pub(super) async fn home_channel(&self, home: &HomeChannel) -> Result<String, Failure> {
        match is_person(&home.chat_id) {
            true => self.private_channel(&home.chat_id).await,
            false => Ok(home.chat_id.clone()),
        }
    }

    /// The home itself, if it takes messages.
    pub(super) async fn home_as_chat(&self, home: &HomeChannel) -> Result<Source, PlatformError> {
        let unusable = |failure| unusable(home, failure);
        let channel = self.home_channel(home).await.map_err(unusable)?;
        let params = [("channel", channel.as_str())];
        let answer = self.api.ask("conversations.info", &params).await;
        let channel_info = &answer.map_err(unusable)?["channel"];
        if channel_info["is_archived"] == true {
            return Err(unusable(Failure::gone("is_archived")));
        }
        let place = self.place(&channel, None).await.map_err(unusable)?;
        let opened = ThreadOutcome::Chat {
            reason: String::new(),
            within: Some(place.kind.chat_type()),
            thread_id: home.thread_id.clone(),
        };
        Ok(self.destination(home, &opened))
    }

    /// The title in the history of an assistant. The thread works without one.
    pub(super) async fn set_title(&self, channel: &str, ts: &str, title: &str) {
        let title: String = one_line(title).chars().take(LONGEST_TITLE).collect();
        if title.is_empty() || !self.has_scope(ASSISTANT) {
            return;
        }
        let request = SlackApiAssistantThreadSetTitleRequest::new(channel.into(), ts.into(), title);
        let set = self.api.call("assistant.threads.setTitle", &request).await;
        if let Err(failure) = set {
            tracing::debug!(?failure, platform = NAME, "thread has no title");
        }
    }

    pub(super) async fn delete_first(&self, thread: &Source) -> Result<(), Failure> {
        let (Some(channel), Some(ts)) = (&thread.chat_id, &thread.thread_id) else {
            return Err(Failure::File("the chat itself cannot be deleted".into()));
        };
        let request = SlackApiChatDeleteRequest::new(channel.as_str().into(), ts.as_str().into());
        self.api.call("chat.delete", &request).await.map(drop)
    }

    /// Shows in the first message of a thread whether a session is there. Threads that a person began stay as they are.
    pub(super) async fn show_session(&self, thread: &Source, is_left: bool) -> Result<(), Failure> {
        let (Some(channel), Some(ts)) = (&thread.chat_id, &thread.thread_id) else {
            return Ok(());
        };
        let params = [
            ("channel", channel.as_str()),
            ("ts", ts),
            ("limit", "1"),
            ("include_all_metadata", "true"),
        ];
        let answer = match self.api.ask("conversations.replies", &params).await {
            Err(failure) if failure.is_final() => return Ok(()),
            answer => answer?,
        };
        let first = &answer["messages"][0];
        let fields = &first["metadata"]["event_payload"];
        let (Some(title), Some(mark)) = (fields["title"].as_str(), fields["id"].as_str()) else {
            return Ok(());
        };
        if first["metadata"]["event_type"] != THREAD || !self.me().wrote(first) {
            return Ok(());
        }
        if first["text"] == words(title, is_left) {
            return Ok(());
        }
        let request = SlackApiChatUpdateRequest::new(
            channel.as_str().into(),
            content(title, mark, is_left),
            ts.as_str().into(),
        );
        match self.api.call("chat.update", &request).await {
            Err(failure) if !failure.is_final() => Err(failure),
            _ => Ok(()),
        }
    }
}

fn unusable(home: &HomeChannel, failure: Failure) -> PlatformError {
    match PlatformError::from(failure) {
        PlatformError::Permanent(reason) | PlatformError::Gone(reason) => {
            PlatformError::Permanent(format!(
                "the home channel {} cannot be used ({reason})",
                home.chat_id
            ))
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_message_names_the_session_and_mentions_no_one() {
        let text = words("Hermes — fix <!channel>\n& go", false);
        assert!(
            text.starts_with("*Hermes — fix &lt;!channel&gt; &amp; go*\n"),
            "{text}"
        );
        assert!(words("x", true).contains("!resume"));
    }
}
