#compdef hermesctl
# Completions of hermesctl for zsh. In ~/.zshrc, after compinit:  source <(hermesctl completions zsh)
# or as a file of the name _hermesctl in a directory of $fpath.

_hermesctl() {
    local -a said values shown
    local line kind
    said=("${(@f)$(hermesctl __complete zsh -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    kind=$said[1]
    shift said
    # What stands before the value of --option=value is none of its business.
    [[ $PREFIX == --*=* ]] && compset -P '*='
    case $kind in
        files) _files; return ;;
        directories) _files -/; return ;;
    esac
    for line in $said; do
        values+=("${line%%$'\t'*}")
        shown+=("${line//$'\t'/  -- }")
    done
    (($#values)) && compadd -l -d shown -a values
}

if [[ $funcstack[1] == _hermesctl ]]; then
    _hermesctl "$@"
else
    compdef _hermesctl hermesctl
fi
