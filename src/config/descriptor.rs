//! The type of a platform's descriptor: its settings, credentials, words and limits. A descriptor is only data, so a
//! program can read all of them without linking an adapter.

use super::spec::SettingSpec;

#[derive(Debug)]
pub struct PlatformDescriptor {
    /// The name in settings, commands and session keys.
    pub name: &'static str,
    /// What the platform calls a thread.
    pub thread_word: &'static str,
    pub settings: &'static [SettingSpec],
    /// The sets of credentials that sign in. Any one set is enough.
    pub credentials: &'static [&'static [Credential]],
    /// The sets of settings that switch the platform on if `enabled` is unset. Any one set is enough. Values in Hermes'
    /// `config.yaml` and `gateway.json` do not count, because Hermes requires `enabled: true` there.
    pub enabled_by: &'static [&'static [&'static str]],
    pub access: AccessRules,
    pub limits: MessageLimits,
    /// Whether Hermes also reads `extra` of the block that has the shared keys.
    pub shared_block_has_extra: bool,
    /// How you get the credentials, one step per line.
    pub setup: &'static [&'static str],
    /// The definition of the app, where the platform's site takes one.
    pub manifest: Option<AppManifest>,
}

/// The definition of an app for the platform's site.
#[derive(Debug, Clone, Copy)]
pub struct AppManifest {
    /// The text to paste there.
    pub text: fn() -> String,
    /// The page that has the text filled in.
    pub link: fn() -> String,
}

/// A setting that a person has to fill in before the platform can sign in.
#[derive(Debug, Clone, Copy)]
pub struct Credential {
    /// The setting that holds it.
    pub setting: &'static str,
    /// What to ask a person for.
    pub label: &'static str,
}

/// The limits of one message.
#[derive(Debug, Clone, Copy)]
pub struct MessageLimits {
    /// Characters of text, in the platform's own count. `None`: no limit.
    pub text: Option<usize>,
    /// Files. `None`: no limit.
    pub files: Option<usize>,
}

/// The rules of access that differ between platforms.
#[derive(Debug, Clone, Copy)]
pub struct AccessRules {
    /// Whether a chat with this id is the private chat with the person of the same id.
    pub is_private_chat: fn(&str) -> bool,
    pub groups: GroupRule,
    /// Whether an unknown person gets a pairing code by default.
    pub offers_pairing: bool,
    /// Whether one person may have several ids, such as a phone number and another.
    pub people_have_aliases: bool,
    /// The id of a person in a list of people, which may write it in several forms.
    pub person_id: fn(&str) -> String,
}

/// The groups that a platform listens to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupRule {
    All,
    /// Those of the setting `groups`.
    Listed,
    /// Those that `group_policy` and `groups` allow.
    ByPolicy,
    /// The platform has no groups.
    None,
}

impl PlatformDescriptor {
    /// The credentials of all sets, each once.
    pub fn all_credentials(&self) -> impl Iterator<Item = &Credential> {
        let all = || self.credentials.iter().copied().flatten();
        all().enumerate().filter_map(move |(at, credential)| {
            let is_repeated = all().take(at).any(|c| c.setting == credential.setting);
            (!is_repeated).then_some(credential)
        })
    }

    pub fn setting(&self, name: &str) -> Option<&'static SettingSpec> {
        self.settings.iter().find(|spec| spec.name == name)
    }

    /// The clause that says when the platform is on although `enabled` is unset.
    pub(super) fn on_when(&self) -> Option<String> {
        let sets: Vec<String> = self
            .enabled_by
            .iter()
            .map(|names| match names {
                [one] => format!("{one} is"),
                several => format!("{} are", several.join(" and ")),
            })
            .collect();
        (!sets.is_empty()).then(|| format!("{} set", sets.join(" or ")))
    }
}
