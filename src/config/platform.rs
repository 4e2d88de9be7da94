//! The validated configuration of one platform: whether it is on, its home channel, and who may talk there.

use std::collections::BTreeSet;

use super::access::Access;
use super::chat_rules::{BotMessages, ChatRules, MentionPatterns};
use super::descriptor::{GroupRule, PlatformDescriptor};
use super::layers::Origin;
use super::token::is_placeholder;
use super::values::SettingValues;
use crate::domain::HomeChannel;

#[derive(Debug, Clone)]
pub struct PlatformConfig {
    pub name: String,
    pub descriptor: &'static PlatformDescriptor,
    /// The values of its settings, for its adapter.
    pub values: SettingValues,
    pub enabled: bool,
    /// The secret that is only a placeholder, and its origin. The platform is then off.
    pub placeholder: Option<(&'static str, Origin)>,
    pub home_channel: Option<HomeChannel>,
    pub access: Access,
    pub rules: ChatRules,
}

impl PlatformConfig {
    pub(super) fn new(descriptor: &'static PlatformDescriptor, all: &SettingValues) -> Self {
        let values = all.of_platform(descriptor.name);
        let placeholder = placeholder(descriptor, &values);
        let access = access(descriptor, all, &values);
        let owner = access.owner().map(str::to_owned);
        let home_channel = values.text("home_channel").map(|chat_id| HomeChannel {
            chat_id,
            name: values.text("home_channel_name"),
            thread_id: values.text("home_channel_thread"),
            owner: owner.or_else(|| values.text("home_channel_user")),
        });
        let is_given = |name: &&str| values.is_set(name) && !values.is_of_hermes(name);
        let wanted = values.maybe_flag("enabled").unwrap_or_else(|| {
            let mut sets = descriptor.enabled_by.iter();
            sets.any(|names| names.iter().all(is_given))
        });
        PlatformConfig {
            name: descriptor.name.to_owned(),
            descriptor,
            enabled: wanted && placeholder.is_none(),
            rules: chat_rules(&values),
            values,
            placeholder,
            home_channel,
            access,
        }
    }

    /// Whether a set of credentials is complete.
    pub fn has_credentials(&self) -> bool {
        let mut sets = self.descriptor.credentials.iter();
        self.placeholder.is_none()
            && sets.any(|set| set.iter().all(|c| self.values.is_set(c.setting)))
    }

    /// The missing settings of the first set of credentials.
    pub fn missing_credentials(&self) -> Vec<String> {
        let first = self.descriptor.credentials.first().copied();
        let credentials = first.unwrap_or_default().iter();
        credentials
            .filter(|c| !self.values.is_set(c.setting))
            .map(|c| format!("platforms.{}.{}", self.name, c.setting))
            .collect()
    }

    /// Whether any credential or `enabled` is set.
    pub fn is_configured(&self) -> bool {
        let mut credentials = self.descriptor.all_credentials();
        self.is_switched() || credentials.any(|c| self.values.is_set(c.setting))
    }

    /// Whether `enabled` is set.
    pub fn is_switched(&self) -> bool {
        self.values.is_set("enabled")
    }

    /// Says which secret is a placeholder, and where it is set.
    pub fn placeholder_note(&self) -> Option<String> {
        let (setting, origin) = self.placeholder.as_ref()?;
        Some(format!(
            "its {setting} is only a placeholder: set the real value ({origin})"
        ))
    }
}

fn placeholder(
    descriptor: &'static PlatformDescriptor,
    values: &SettingValues,
) -> Option<(&'static str, Origin)> {
    let secrets = descriptor.settings.iter().filter(|spec| spec.secret);
    let mut placeholders = secrets.filter_map(|spec| {
        let text = values.text(spec.name)?;
        is_placeholder(&text).then_some(spec.name)
    });
    let name = placeholders.next()?;
    Some((name, values.origin(name)?.clone()))
}

fn access(descriptor: &PlatformDescriptor, all: &SettingValues, own: &SettingValues) -> Access {
    let rules = &descriptor.access;
    let everywhere = all.set("chats.allowed_users");
    let listed = own.set("allowed_users");
    let mut users: BTreeSet<String> = listed.iter().map(|id| (rules.person_id)(id)).collect();
    let (mut group_users, mut chats) = (own.set("allowed_group_users"), own.set("allowed_chats"));
    // Older files list chats here. Ids of chats begin with a minus sign, ids of people do not.
    let named_as_users = group_users.extract_if(.., |id| id.starts_with('-'));
    chats.extend(named_as_users);
    let groups = groups(rules.groups, own);
    // Without a list of people, Hermes allows the members of a listed group.
    let is_allowlist = rules.groups == GroupRule::ByPolicy
        && own.text("group_policy").as_deref() == Some("allowlist");
    if users.is_empty() && everywhere.is_empty() && is_allowlist {
        chats.extend(groups.clone().unwrap_or_default());
    }
    let names_no_one =
        users.is_empty() && group_users.is_empty() && chats.is_empty() && everywhere.is_empty();
    users.extend(everywhere);
    let pairing = pairs_strangers(rules.offers_pairing, all, own, !users.is_empty());
    Access {
        everyone: own.flag("allow_everyone") || (names_no_one && all.flag("chats.allow_everyone")),
        users,
        group_users,
        chats,
        roles: own.set("allowed_roles"),
        owner: own.text("owner").map(|id| (rules.person_id)(&id)),
        home_person: own
            .text("home_channel")
            .filter(|chat| (rules.is_private_chat)(chat)),
        trusts_users: own.text("trusted").as_deref() == Some("allowed_users"),
        groups,
        pairing,
    }
}

/// A platform that lacks one of the settings has its default.
fn chat_rules(own: &SettingValues) -> ChatRules {
    let bots = own.text("allow_bots");
    ChatRules {
        only_chats: own.set("only_chats"),
        ignored_chats: own.set("ignored_chats"),
        require_mention: own.flag("require_mention"),
        free_chats: own.set("free_chats"),
        thread_require_mention: own.flag("thread_require_mention"),
        ignore_mentions_of_others: own.flag("ignore_mentions_of_others"),
        mention_patterns: MentionPatterns::read(&own.set("mention_patterns")),
        bots: bots.map_or(BotMessages::Never, |word| BotMessages::parse(&word)),
        auto_thread: own.flag("auto_thread"),
        no_thread_chats: own.set("no_thread_chats"),
    }
}

/// The groups that the platform listens to. `None`: all.
fn groups(rule: GroupRule, own: &SettingValues) -> Option<BTreeSet<String>> {
    let listed = own.set("groups");
    match rule {
        GroupRule::All => None,
        GroupRule::None => Some(BTreeSet::new()),
        GroupRule::Listed => Some(listed),
        GroupRule::ByPolicy => Some(match own.text("group_policy").as_deref() {
            Some("open") => BTreeSet::from(["*".to_owned()]),
            // Hermes' own list counts only under this policy.
            Some("allowlist") => listed,
            _ if own.is_of_hermes("groups") => BTreeSet::new(),
            _ => listed,
        }),
    }
}

/// Whether an unknown person gets a pairing code. The platform's `strangers` decides, else `chats.strangers`, else
/// Hermes' policy. Without these, only while there are no allowed users.
fn pairs_strangers(
    offers_pairing: bool,
    all: &SettingValues,
    own: &SettingValues,
    has_users: bool,
) -> bool {
    let of_all = all.text("chats.strangers");
    // In Hermes' files, only `ignore` applies to all platforms.
    let of_all = of_all.filter(|word| word == "ignore" || !all.is_of_hermes("chats.strangers"));
    if let Some(word) = own.text("strangers").or(of_all) {
        return word == "pair";
    }
    match own.text("dm_policy").as_deref() {
        Some("pairing") => true,
        Some("allowlist" | "disabled") => false,
        _ => offers_pairing && !has_users,
    }
}
