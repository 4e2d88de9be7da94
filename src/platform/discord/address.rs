//! Converts Discord's channels, threads and people to sources. A handoff and the person's next message must get the
//! same key. A thread is a channel of its own.

use super::NAME;
use super::channel::Place;
use crate::domain::{ChatType, HomeChannel, Source, ThreadOutcome};

/// A person as a message names them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Person {
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
}

/// The source of a message of this person there.
pub(super) fn of_place(place: &Place, person: &Person) -> Source {
    let channel = &place.channel;
    let chat_type = channel.chat_type();
    let is_thread = chat_type == ChatType::Thread;
    Source {
        thread_id: is_thread.then(|| channel.id.clone()),
        parent_chat_id: channel.parent.clone().filter(|_| is_thread),
        scope_id: channel.guild.clone(),
        chat_name: match chat_type {
            ChatType::Dm => person.name.clone(),
            _ => place.name.clone(),
        },
        chat_topic: place.topic.clone(),
        user_id: person.id.clone(),
        user_name: person.name.clone(),
        ..Source::new(NAME, chat_type, &channel.id)
    }
}

fn of_thread(id: &str, parent: Option<&str>) -> Source {
    Source {
        thread_id: Some(id.to_owned()),
        parent_chat_id: parent.map(str::to_owned),
        ..Source::new(NAME, ChatType::Thread, id)
    }
}

/// The source of the owner's next message after a handoff.
pub(super) fn of_home(home: &HomeChannel, opened: &ThreadOutcome) -> Source {
    let source = match opened {
        ThreadOutcome::Thread { id, title, .. } => Source {
            chat_name: Some(title.clone()),
            ..of_thread(id, Some(&home.chat_id))
        },
        // `thread_id` is the channel that is used instead of the home: a thread, or the private chat with a person.
        ThreadOutcome::Chat {
            within, thread_id, ..
        } => {
            let id = thread_id.as_ref().unwrap_or(&home.chat_id);
            let parent = thread_id.as_ref().map(|_| home.chat_id.as_str());
            let parent = parent.filter(|parent| parent != id);
            Source {
                chat_name: home.name.clone(),
                ..match within {
                    Some(ChatType::Thread) => of_thread(id, parent),
                    within => Source::new(NAME, within.unwrap_or(ChatType::Group), id),
                }
            }
        }
    };
    Source {
        user_id: home.owner.clone(),
        ..source
    }
}

/// The channel around a thread. The thread is a chat of its own, so it must not stay in the source.
pub(super) fn parent(thread: &Source) -> Option<Source> {
    thread.thread_id.as_ref()?;
    let parent = thread.parent_chat_id.as_ref()?;
    Some(Source {
        scope_id: thread.scope_id.clone(),
        user_id: thread.user_id.clone(),
        user_name: thread.user_name.clone(),
        profile: thread.profile.clone(),
        ..Source::new(NAME, ChatType::Group, parent)
    })
}

#[cfg(test)]
mod tests {
    use serenity::model::channel::ChannelType as Kind;

    use super::*;
    use crate::domain::{KeyRules, session_key};
    use crate::platform::discord::channel::Channel;

    fn place(id: &str, kind: Kind, parent: Option<&str>) -> Place {
        let place = Place::private(id.into());
        Place {
            channel: Channel {
                kind,
                name: Some("name".into()),
                guild: (kind != Kind::Private).then(|| "9".into()),
                parent: parent.map(str::to_owned),
                ..place.channel
            },
            ..place
        }
    }

    #[test]
    fn a_handoff_and_the_next_message_have_one_key() {
        let ada = Person {
            id: Some("42".into()),
            name: Some("Ada".into()),
        };
        let home = HomeChannel {
            chat_id: "100".into(),
            name: None,
            thread_id: None,
            owner: Some("42".into()),
        };
        let thread = ThreadOutcome::Thread {
            id: "301".into(),
            title: "t".into(),
            repeated: false,
            within: None,
        };
        let within = |within| ThreadOutcome::Chat {
            reason: String::new(),
            within: Some(within),
            thread_id: None,
        };
        for (opened, seen, key) in [
            (
                thread,
                place("301", Kind::PublicThread, Some("100")),
                "agent:main:discord:thread:301:301",
            ),
            (
                within(ChatType::Dm),
                place("100", Kind::Private, None),
                "agent:main:discord:dm:100",
            ),
            (
                within(ChatType::Group),
                place("100", Kind::Text, Some("7")),
                "agent:main:discord:group:100:42",
            ),
            (
                within(ChatType::Thread),
                place("100", Kind::PublicThread, Some("7")),
                "agent:main:discord:thread:100:100",
            ),
        ] {
            for (group, per_thread) in [(true, false), (true, true), (false, true), (false, false)]
            {
                let rules = KeyRules {
                    group_per_user: group,
                    thread_per_user: per_thread,
                    ..KeyRules::default()
                };
                let bound = session_key(&of_home(&home, &opened), &rules);
                assert_eq!(bound, session_key(&of_place(&seen, &ada), &rules));
                if group && !per_thread {
                    assert_eq!(bound, key);
                }
            }
        }
    }

    #[test]
    fn the_parent_of_a_thread_is_its_channel() {
        let seen = place("301", Kind::PublicThread, Some("100"));
        let around = parent(&of_place(&seen, &Person::default())).expect("a channel");
        assert_eq!(around.chat_id.as_deref(), Some("100"));
        assert_eq!(
            (around.thread_id, around.chat_type),
            (None, ChatType::Group)
        );
        assert_eq!(parent(&Source::new(NAME, ChatType::Group, "100")), None);
    }
}
