# Writes the server's page as a constant of a C++ file: cmake -DINPUT=page.html -DOUTPUT=serve_page.cc -P embed_page.cmake
file(READ ${INPUT} html)
file(WRITE ${OUTPUT} "#include \"serve/service.h\"\n\nnamespace gluino::serve {\nconst std::string_view kPage = R\"asset(${html})asset\";\n}\n")
