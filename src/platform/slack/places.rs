//! Remembers what the channels of the workspace are, and the names of channels and people.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;

use super::address::{Kind, Place};
use super::failure::Failure;
use super::{NAME, Slack};

/// The most channels or people that are remembered.
const MOST: usize = 10_000;
/// Slack waits three seconds for the acknowledgement of an event, so a name must not take longer.
const PATIENCE_FOR_NAMES: Duration = Duration::from_millis(1500);
/// The longest wait for what a channel is, if Slack refuses to say it for a while.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Default)]
struct Known {
    kind: Option<Kind>,
    name: Option<String>,
    /// Slack was asked for the name.
    asked: bool,
}

#[derive(Default)]
pub(super) struct Places {
    channels: Mutex<HashMap<String, Known>>,
    /// `None`: the name cannot be found out.
    people: Mutex<HashMap<String, Option<String>>>,
    /// The private chats with people, by the person.
    private: Mutex<HashMap<String, String>>,
    /// Threads of the assistant without a title: the channel and the thread.
    untitled: Mutex<HashSet<(String, String)>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Places {
    fn of(&self, id: &str) -> Known {
        locked(&self.channels).get(id).cloned().unwrap_or_default()
    }

    fn remember(&self, id: &str, known: Known) {
        let mut channels = locked(&self.channels);
        if channels.len() >= MOST {
            channels.clear();
        }
        channels.insert(id.to_owned(), known);
    }

    /// A person has opened the assistant.
    pub(super) fn assistant_opened(&self, channel: &str, thread: &str) {
        let mut untitled = locked(&self.untitled);
        if untitled.len() >= MOST {
            untitled.clear();
        }
        untitled.insert((channel.to_owned(), thread.to_owned()));
    }

    /// Whether this is the first message in a thread of the assistant.
    pub(super) fn takes_title(&self, channel: &str, thread: &str) -> bool {
        let thread = (channel.to_owned(), thread.to_owned());
        locked(&self.untitled).remove(&thread)
    }

    /// The private chat with a person, if it was opened.
    pub(super) fn private_with(&self, person: &str) -> Option<String> {
        locked(&self.private).get(person).cloned()
    }
}

impl Slack {
    /// The channel of an event. Not all events say what it is, and the key of its messages depends on that.
    pub(super) async fn place(
        &self,
        id: &str,
        channel_type: Option<&str>,
    ) -> Result<Place, Failure> {
        let mut known = self.places.of(id);
        let kind = channel_type.and_then(Kind::of_event);
        let kind = kind.or_else(|| Kind::of_id(id)).or(known.kind);
        if kind.is_none() {
            known = match self.look_up_patiently(id).await {
                Ok(known) => known,
                Err(failure) if failure.is_final() => {
                    tracing::warn!(
                        ?failure,
                        channel = id,
                        platform = NAME,
                        "kind of channel unknown"
                    );
                    Known {
                        asked: true,
                        ..Known::default()
                    }
                }
                Err(failure) => return Err(failure),
            };
        } else if !known.asked && kind != Some(Kind::Private) {
            let asked = tokio::time::timeout(PATIENCE_FOR_NAMES, self.look_up(id)).await;
            known = match asked {
                Ok(Ok(known)) => known,
                _ => known,
            };
        }
        let kind = kind.or(known.kind).unwrap_or(Kind::Channel);
        let name = known.name.clone();
        let known = Known {
            kind: Some(kind),
            asked: true,
            ..known
        };
        self.places.remember(id, known);
        Ok(Place {
            id: id.to_owned(),
            kind,
            name,
            workspace: self.me().workspace,
        })
    }

    /// Waits if Slack asks for it. Without the kind, the event would have to be received again.
    async fn look_up_patiently(&self, id: &str) -> Result<Known, Failure> {
        match self.look_up(id).await {
            Err(Failure::Wait(pause)) if pause <= LONGEST_WAIT => {
                tokio::time::sleep(pause).await;
                self.look_up(id).await
            }
            found => found,
        }
    }

    async fn look_up(&self, id: &str) -> Result<Known, Failure> {
        let answer = self
            .api
            .ask("conversations.info", &[("channel", id)])
            .await?;
        let channel = &answer["channel"];
        let is = |field: &str| channel[field] == true;
        Ok(Known {
            kind: Some(match () {
                () if is("is_im") => Kind::Private,
                () if is("is_mpim") => Kind::PrivateGroup,
                () => Kind::Channel,
            }),
            name: channel["name"].as_str().map(str::to_owned),
            asked: true,
        })
    }

    /// The name of a person, if it is known or Slack says it soon.
    pub(super) async fn person_name(&self, id: &str) -> Option<String> {
        if let Some(name) = locked(&self.places.people).get(id) {
            return name.clone();
        }
        let params = [("user", id)];
        let asked = self.api.ask("users.info", &params);
        let name = match tokio::time::timeout(PATIENCE_FOR_NAMES, asked).await {
            Ok(Ok(answer)) => name_of(&answer["user"]),
            Ok(Err(failure)) if failure.is_final() => None,
            _ => return None,
        };
        let mut people = locked(&self.places.people);
        if people.len() >= MOST {
            people.clear();
        }
        people.insert(id.to_owned(), name.clone());
        name
    }

    /// The private chat with a person. Opens it.
    pub(super) async fn private_channel(&self, person: &str) -> Result<String, Failure> {
        if let Some(channel) = self.places.private_with(person) {
            return Ok(channel);
        }
        let body = serde_json::json!({"users": person});
        let answer = self.api.call("conversations.open", &body).await?;
        let id = answer["channel"]["id"].as_str();
        let id = id
            .ok_or_else(|| Failure::gone("channel_not_found"))?
            .to_owned();
        locked(&self.places.private).insert(person.to_owned(), id.clone());
        Ok(id)
    }
}

/// As people see it first.
fn name_of(user: &Value) -> Option<String> {
    let names = [
        &user["profile"]["display_name"],
        &user["profile"]["real_name"],
        &user["real_name"],
        &user["name"],
    ];
    let mut names = names.into_iter().filter_map(Value::as_str);
    names.find(|name| !name.is_empty()).map(str::to_owned)
}
