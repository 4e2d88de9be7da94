# Completions of hermesctl for fish. As a file of this name in ~/.config/fish/completions/, or:
#   hermesctl completions fish | source

function __hermesctl_complete
    set -l words (commandline -opc)
    set -l said (hermesctl __complete fish -- $words[2..-1] (commandline -ct) 2>/dev/null)
    switch "$said[1]"
        case files
            __fish_complete_path (commandline -ct)
        case directories
            __fish_complete_directories (commandline -ct)
        case '*'
            printf '%s\n' $said[2..-1]
    end
end

complete -c hermesctl -f -k -a '(__hermesctl_complete)'
