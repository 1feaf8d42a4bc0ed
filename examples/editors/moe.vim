" Highlighting of .moe files: as ~/.vim/syntax/moe.vim (Neovim: ~/.config/nvim/syntax/moe.vim), with
"   autocmd BufRead,BufNewFile *.moe setfiletype moe
if exists("b:current_syntax")
  finish
endif

syntax keyword moeDeclaration use layout machine layer optimizer schedule model experiment parametrization option axis sequence param state
syntax keyword moeDeclaration input output cache refine provide request shared kind transfer from vary tune by was suggest extern
syntax keyword moeStatement repeat scan over reversed if else match for in require update loss aux probe
syntax keyword moeReduction sum mean max min logsumexp
syntax keyword moeOperator and or not
syntax keyword moeConstant none true false
syntax match moeNumber "\<\d\+\(\.\d\+\)\?\([eE][+-]\?\d\+\)\?\>"
syntax match moeFunction "\<\h\w*\ze\(@\h\w*\)\?("
syntax match moeLabel "@\h\w*"
syntax match moeOption "\<\h[A-Za-z0-9_.]*\ze\s*=[^=]"
syntax region moeString start=+"+ end=+"+ oneline
syntax match moeComment "#.*$" contains=@Spell

highlight default link moeDeclaration Keyword
highlight default link moeStatement Statement
highlight default link moeReduction Function
highlight default link moeOperator Operator
highlight default link moeConstant Constant
highlight default link moeNumber Number
highlight default link moeFunction Function
highlight default link moeLabel Label
highlight default link moeOption Identifier
highlight default link moeString String
highlight default link moeComment Comment

setlocal commentstring=#\ %s
let b:current_syntax = "moe"
